"""The kit's own eyes: what is broken on purpose must be seen, else its silence proves nothing."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.selftest import innocent, oracle
from supervisor.selftest.case import INNOCENTS, Bench, Case, Check, Scene, Step, perform
from supervisor.selftest.hostile import started_at
from supervisor.selftest.lab import Lab
from supervisor.selftest.promises import Complaint, Promise
from supervisor.selftest.steps import call, outcomes, state


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A bench that waits no longer than it must for what will not happen."""
    monkeypatch.setattr(oracle, "SETTLED_AFTER", 2.0)
    with Bench(tmp_path) as bench:
        yield bench


def case(*acts: Step, checks: tuple[Check, ...] = ()) -> Case:
    return Case("Z1", Promise.ACCOUNT, "a server", "something happens", "it shows", acts, checks)


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


def test_a_page_without_its_figures_is_a_complaint(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oracle, "SETTLED_AFTER", 0.5)

    def have_no_figures(scene: Scene) -> None:
        monkeypatch.setattr(scene.lab, "metrics", dict)

    assert complaints(bench, tmp_path, case(have_no_figures)) == {Promise.TRUTH}


def test_whatever_an_oracle_stumbles_over_is_a_complaint(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pull_the_page_away(scene: Scene) -> None:
        monkeypatch.setattr(scene.lab, "metrics", lambda: 1 / 0)

    assert complaints(bench, tmp_path, case(pull_the_page_away)) == {Promise.ACCOUNT}


def test_a_try_that_is_forgiven_is_told(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = iter([[Complaint(Promise.NO_HARM, "late", by_chance=True)], []])
    monkeypatch.setattr("supervisor.selftest.case.harm", lambda _: next(late))

    result = perform(case(), tmp_path, bench)

    assert (result.complaints, [each.sentence for each in result.forgiven]) == ((), ["late"])


def test_what_chance_can_have_brought_adds_nothing_to_what_is_sure(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = Complaint(Promise.NO_HARM, "late", by_chance=True)
    monkeypatch.setattr("supervisor.selftest.case.harm", lambda _: [late])

    result = perform(case(checks=(lambda _: "no",)), tmp_path, bench)

    assert [each.promise for each in result.complaints] == [Promise.ACCOUNT]
    assert result.forgiven == (late,)


def test_an_innocent_server_that_answers_late_is_seen(bench: Bench, tmp_path: Path) -> None:
    def hold_the_daemon_up(scene: Scene) -> None:
        pid = scene.lab.pid
        os.kill(pid, signal.SIGSTOP)
        threading.Timer(20 * innocent.PROMPT, os.kill, (pid, signal.SIGCONT)).start()
        scene.lab.client.request("supervisor/info")

    assert complaints(bench, tmp_path, case(hold_the_daemon_up)) == {Promise.NO_HARM}


def test_a_wait_for_a_processor_is_nobodys_fault(tmp_path: Path) -> None:
    account = tmp_path / "schedstat"
    account.write_text("500000000 2000000000 3\n")

    share = innocent.share_of([account, tmp_path / "not kept"])

    assert (share.waited, share.slowdown) == (2.0, 5.0)
    assert innocent.share_of([]).slowdown == 1.0


@pytest.mark.parametrize(("took", "slowdown", "harmed"), [(0.05, 1.0, 0), (0.2, 1.0, 1), (0.2, 3.0, 0)])
def test_an_answer_is_late_by_the_pace_of_the_machine(took: float, slowdown: float, harmed: int) -> None:
    watch = innocent.Watch([0.001, took], slowdown=slowdown)

    assert len(innocent.harm(watch)) == harmed


def test_a_task_that_is_left_is_seen(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def spill(_: Scene) -> None:
        monkeypatch.setattr(oracle, "tasks", lambda _: 1000.0)

    assert complaints(bench, tmp_path, case(spill)) == {Promise.NO_HARM}
