"""The kit's own eyes: what is broken on purpose must be seen, else its silence proves nothing."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.selftest import oracle
from supervisor.selftest.case import BAD, INNOCENTS, Bench, Case, Check, Scene, Step, perform
from supervisor.selftest.hostile import started_at
from supervisor.selftest.lab import Entry, Lab, hostile
from supervisor.selftest.promises import Promise
from supervisor.selftest.steps import call, outcomes, state


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A bench that waits no longer than it must for what will not happen."""
    monkeypatch.setattr(oracle, "SETTLED_AFTER", 0.3)
    with Bench(tmp_path) as bench:
        yield bench


def case(*acts: Step, checks: tuple[Check, ...] = (), **servers: Entry) -> Case:
    there = servers or {BAD: hostile()}
    return Case("Z1", Promise.ACCOUNT, "a server", "something happens", "it shows", there, acts, checks)


def complaints(bench: Bench, tmp_path: Path, told: Case) -> set[Promise]:
    return {complaint.promise for complaint in perform(told, tmp_path, bench).complaints}


def test_a_check_that_fails_breaks_the_promise_of_its_case(bench: Bench, tmp_path: Path) -> None:
    told = case(call("echo"), checks=(outcomes("unknown"),))

    assert complaints(bench, tmp_path, told) == {Promise.ACCOUNT}


def test_a_step_that_fails_is_told(bench: Bench, tmp_path: Path) -> None:
    def stop_a_stranger(scene: Scene) -> None:
        scene.lab.client.request("servers/stop", {"server": "stranger"})

    assert complaints(bench, tmp_path, case(stop_a_stranger)) == {Promise.ACCOUNT}


def test_a_process_that_is_left_is_seen(bench: Bench, tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as left:

        def leave(scene: Scene) -> None:
            line = f'{{"pid": {left.pid}, "started": {started_at(left.pid)}}}\n'
            with (scene.lab.directory / "journal").open("a", encoding="utf-8") as journal:
                journal.write(line)

        found = complaints(bench, tmp_path, case(leave))
        left.kill()

    assert found == {Promise.NOTHING_LEFT}


def test_a_descriptor_that_is_left_is_seen(bench: Bench, tmp_path: Path) -> None:
    opened = []

    def connect(scene: Scene) -> None:
        opened.append(scene.lab.another_client())
        opened[0].servers()

    found = complaints(bench, tmp_path, case(connect))
    opened[0].close()

    assert found == {Promise.NO_HARM}


def test_an_innocent_server_that_fails_is_seen(bench: Bench, tmp_path: Path) -> None:
    def stop_the_good(scene: Scene) -> None:
        scene.lab.client.request("servers/stop", {"server": "good"})

    assert Promise.NO_HARM in complaints(bench, tmp_path, case(stop_the_good))


def test_a_daemon_that_ends_is_seen_and_another_takes_its_place(bench: Bench, tmp_path: Path) -> None:
    def end(scene: Scene) -> None:
        scene.lab.end()

    assert Promise.NO_HARM in complaints(bench, tmp_path, case(end))
    assert complaints(bench, tmp_path, case(call("echo"), checks=(state("connected"),))) == set()


def test_a_status_that_lies_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oracle, "SETTLED_AFTER", 0.3)
    lab = Lab(tmp_path)
    try:
        lab.start(INNOCENTS)
        honest = oracle.contradictions(lab)
        truth = lab.metrics()
        monkeypatch.setattr(lab, "metrics", lambda: dict.fromkeys(truth, 0.0))
        lied = oracle.contradictions(lab)
        lab.end()
    finally:
        lab.destroy()

    assert honest == []
    assert {complaint.promise for complaint in lied} == {Promise.TRUTH}


@pytest.mark.parametrize(
    ("before", "during", "harmed"), [(0.001, 0.4, False), (0.4, 0.9, False), (0.001, 0.9, True)]
)
def test_only_what_is_both_slower_and_slow_is_harm(before: float, during: float, harmed: bool) -> None:
    usual = oracle.Baseline(before, [], set())

    found = oracle.harm(usual, oracle.Watch([during] * 100))

    assert bool(found) == harmed
