"""Runs of real children: they come up in every era, and what they say arrives."""

import errno
import json
import os
import shlex
import signal
from pathlib import Path

import pytest
from msgspec.structs import replace

from supervisor.core.phases import End, Launched, Opened
from supervisor.runtime import conversation, process
from supervisor.runtime.conversation import Dialect
from supervisor.runtime.memory import Memory
from supervisor.runtime.orphans import TOKEN_NAME
from supervisor.runtime.process import death_signal_prefix
from supervisor.runtime.session import Limits
from supervisor.runtime.spawner import Spawner
from supervisor.runtime.stdio import Host
from tests.runtime.support import (
    ENVIRON,
    INSTANCE,
    LOOPS,
    PATIENCE,
    QUICK,
    TELL,
    Stage,
    fake,
    received,
    small_server,
    staged,
    starts,
    until,
)

pytestmark = [pytest.mark.usefixtures("nothing_left"), LOOPS]

# Eras.


@pytest.mark.parametrize(
    ("era", "protocol", "version"),
    [
        ("both", "auto", "2026-07-28"),
        ("modern", "auto", "2026-07-28"),
        ("legacy", "auto", "2025-11-25"),
        ("mute", "auto", "2025-11-25"),
        ("rmcp", "auto", "2025-11-25"),
        ("both", "2025-11-25", "2025-11-25"),
        ("both", "2026-07-28", "2026-07-28"),
    ],
)
async def test_a_server_of_any_era_opens_and_answers(
    host: Host, era: str, protocol: str, version: str
) -> None:
    dialect = Dialect(protocol=protocol, limits=QUICK)  # type: ignore[arg-type]
    async with staged(
        host, fake("--strict", "--era", era, "--tools", "3", "--page-size", "2"), dialect
    ) as stage:
        await stage.opened()

        assert stage.run.talk.session.version == version
        assert stage.listings == [["echo", "echo_2", "echo_3"]]
        assert (await stage.call("echo", n=1)).text == '{"n":1}'


@pytest.mark.parametrize("era", ["rmcp", "mute"])
async def test_a_probe_that_is_not_borne_is_tried_once(host: Host, tmp_path: Path, era: str) -> None:
    argv = fake("--era", era, "--log", tmp_path / "log")
    async with staged(host, argv) as first:
        await first.opened()
    tries = starts(tmp_path / "log")
    (tmp_path / "log").unlink()

    async with staged(host, argv) as second:
        await second.opened()

    assert tries == (2 if era == "rmcp" else 1)
    assert starts(tmp_path / "log") == 1
    assert "server/discover" not in received(tmp_path / "log")


async def test_what_is_known_of_a_probe_outlives_the_daemon(host: Host, tmp_path: Path) -> None:
    argv = fake("--era", "rmcp", "--log", tmp_path / "log")
    memory = tmp_path / "memory.json"
    async with staged(replace(host, memory=Memory(memory)), argv) as first:
        await first.opened()
    (tmp_path / "log").unlink()

    async with staged(replace(host, memory=Memory(memory)), argv) as second:
        await second.opened()

    assert received(tmp_path / "log")[0] == "initialize"


async def test_a_server_that_was_replaced_by_a_modern_one_is_probed_again(host: Host, tmp_path: Path) -> None:
    era = tmp_path / "era"
    argv = ["sh", "-c", f'exec "$@" --log {tmp_path / "log"} --era "$(cat {era})"', "sh", *fake()]
    openings: list[list[str]] = []
    for installed in ("rmcp", "modern", "modern"):
        era.write_text(installed)
        async with staged(host, argv) as stage:
            await stage.opened()
        openings.append(received(tmp_path / "log")[:2])
        (tmp_path / "log").unlink()

    assert openings[1:] == [["initialize", "server/discover"], ["server/discover", "tools/list"]]


async def test_a_server_that_dies_either_way_is_tried_in_turn(host: Host, tmp_path: Path) -> None:
    argv = fake("--era", "rmcp", "--exit-at", "initialize", "--log", tmp_path / "log")
    tries: list[int] = []
    deaths: list[int] = []
    asked: list[bool] = []
    for _ in range(4):
        async with staged(host, argv) as stage:
            deaths.append((await stage.ended()).deaths)
        tries.append(starts(tmp_path / "log"))
        asked.extend(host.memory.silent.values())

    assert (tries, deaths) == ([2, 3, 4, 5], [2, 1, 1, 1])
    assert asked == [False, True, False, True]


async def test_one_that_died_either_way_is_met_as_before_once_it_lives(host: Host, tmp_path: Path) -> None:
    server = shlex.join(fake("--era", "rmcp"))
    argv = ["/bin/sh", "-c", f"test -e {tmp_path}/mended || {{ read word; exit 1; }}; exec {server}"]
    for _ in range(2):
        async with staged(host, argv) as stage:
            await stage.ended()
    (tmp_path / "mended").touch()

    async with staged(host, argv) as stage:
        await stage.opened()

    assert host.memory.silent == {}


async def test_a_server_that_dies_and_leaves_the_question_unread_is_tried_once_a_run(
    host: Host, tmp_path: Path
) -> None:
    argv = fake("--exit-at", "spawn", "--exit-code", "3", "--log", tmp_path / "log", "--stderr", "no config")
    async with staged(host, argv) as stage:
        end = await stage.ended()

    assert end == End("exited with code 3", code=3)
    assert stage.stderr == ["no config"]
    assert stage.events == [Launched(1)]
    assert starts(tmp_path / "log") == 1
    assert host.memory.silent == {}


async def test_a_server_that_has_read_the_first_of_two_questions_may_have_died_of_it(
    host: Host, tmp_path: Path
) -> None:
    slow = f"until test -e {tmp_path}/asked; do sleep 0.02; done; read one; exit 1"
    async with staged(host, ["/bin/sh", "-c", slow], Dialect(limits=QUICK)) as stage:
        first = await until(lambda: stage.run.talk.wire.sent)
        await until(lambda: stage.run.talk.wire.sent > first)
        (tmp_path / "asked").touch()

        assert (await stage.ended()).deaths == 2


async def test_what_was_learnt_of_a_question_stays_when_the_next_one_is_left_unread(
    host: Host, tmp_path: Path
) -> None:
    argv = ["/bin/sh", "-c", f"test -e {tmp_path}/broken || read word; exit 1"]
    asked: list[list[bool]] = []
    for _ in range(3):
        async with staged(host, argv) as stage:
            await stage.ended()
        asked.append(list(host.memory.silent.values()))
        (tmp_path / "broken").touch()

    assert asked == [[False]] * 3


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--echo",), "it sends back what it is sent, so it is not an MCP server"),
        (("--era", "legacy", "--version", "1999-01-01"), "wants protocol '1999-01-01'"),
        (("--endless-pages",), "more than 1000 pages"),
        (("--same-cursor",), "repeats the cursor 'again'"),
        (("--close-stdout",), "closed its standard output"),
        (
            ("--bad-utf8", "--fault-at", "list"),
            "cannot list its tools: the server answered with bytes that are not UTF-8",
        ),
        (("--endless-line", "100000", "--fault-at", "list"), "longer than 70000 bytes"),
    ],
)
async def test_a_server_that_cannot_be_talked_with_is_lost_and_says_why(
    host: Host, options: tuple[str, ...], why: str
) -> None:
    dialect = Dialect(max_line_bytes=70_000, limits=QUICK)
    async with staged(host, fake(*options), dialect) as stage:
        assert why in await stage.lost()

        assert Opened(1) not in stage.events


async def test_a_server_that_never_answers_is_neither_ready_nor_lost(host: Host, tmp_path: Path) -> None:
    async with staged(host, fake("--silent", "--log", tmp_path / "log")) as stage:
        await until(lambda: starts(tmp_path / "log") and "initialize" in (tmp_path / "log").read_text())

        assert stage.events == [Launched(1)]
        stage.run.close()
        assert (await stage.ended()).signal == signal.SIGTERM


# Starting.


async def test_a_command_that_does_not_exist_is_hopeless(host: Host) -> None:
    async with staged(host, ["/does/not/exist"]) as stage:
        end = await stage.ended()

    assert end == End("cannot find /does/not/exist: no such file", hopeless=True)


async def test_what_the_system_refuses_may_be_tried_again(host: Host, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/does/not/exist\n")
    program.chmod(0o755)
    async with staged(host, [str(program)]) as stage:
        end = await stage.ended()

    assert end == End("cannot start: No such file or directory")


@pytest.mark.parametrize(
    ("refusal", "words"),
    [(errno.EAGAIN, "Resource temporarily unavailable"), (errno.ENOMEM, "Cannot allocate memory")],
)
async def test_a_system_without_processes_or_memory_may_have_some_later(
    host: Host, monkeypatch: pytest.MonkeyPatch, refusal: int, words: str
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(refusal, os.strerror(refusal))

    monkeypatch.setattr(process, "_started", refuse)
    async with staged(host, fake()) as stage:
        end = await stage.ended()

    assert end == End(f"cannot start: {words}")


async def test_a_run_that_was_closed_before_it_began_starts_nothing(host: Host) -> None:
    stage = Stage(host, fake(), Dialect(), {})
    stage.run.close()

    await stage.live()

    assert stage.end == End("stopped before it was started")


async def test_a_child_gets_its_environment_its_token_and_three_streams(host: Host) -> None:
    async with staged(host, fake(), MINE="yes") as stage:
        await stage.opened()

        environment = json.loads((await stage.call("environ")).text)
        descriptors = json.loads((await stage.call("fds")).text)

    assert environment.pop(TOKEN_NAME).startswith(f"{INSTANCE}:")
    assert environment == {**ENVIRON, "MINE": "yes"}
    assert sorted(descriptors) == ["0", "1", "2"]


async def test_an_argument_that_is_no_text_is_started_as_it_is(host: Host) -> None:
    odd = os.fsdecode(b"caf\xe9")
    async with staged(host, ["/bin/sh", "-c", 'exec "$@"', odd, *fake()]) as stage:
        await stage.opened()


async def test_a_prefix_does_not_change_who_the_child_is(host: Host) -> None:
    async with staged(replace(host, spawner=Spawner(death_signal_prefix)), fake()) as stage:
        await stage.opened()

        assert (await stage.call("pid")).text == str(stage.pid)


# Talking.


async def test_content_length_framing_works_from_end_to_end(host: Host) -> None:
    dialect = Dialect(framing="content-length", limits=QUICK)
    async with staged(host, fake("--framing", "content-length", "--era", "legacy"), dialect) as stage:
        await stage.opened()

        assert (await stage.call("echo", text="ä\n" * 1000)).text == json.dumps(
            {"text": "ä\n" * 1000}, ensure_ascii=False, separators=(",", ":")
        )


async def test_a_result_of_fifty_megabytes_arrives_whole(host: Host) -> None:
    size = 50_000_000
    async with staged(host, fake()) as stage:
        await stage.opened()

        assert len((await stage.call("big", bytes=size)).text) == size


async def test_a_request_of_ten_megabytes_arrives_whole(host: Host) -> None:
    async with staged(host, fake()) as stage:
        await stage.opened()

        assert len((await stage.call("echo", text="x" * 10_000_000)).text) == 10_000_011


@pytest.mark.parametrize("options", [("--garbage",), ("--wrong-id",), ("--duplicate-answer",)])
async def test_noise_is_counted_logged_and_skipped(host: Host, options: tuple[str, ...]) -> None:
    async with staged(host, fake(*options)) as stage:
        await stage.opened()
        answers = [await stage.call("echo", n=number) for number in range(20)]

        assert [answer.text for answer in answers] == [f'{{"n":{number}}}' for number in range(20)]
        await until(lambda: stage.run.talk.noise >= 20)
        assert len([line for line in stage.stderr if line.startswith("(on stdout, not MCP)")]) == 10


async def test_a_server_may_ask_and_is_answered(host: Host) -> None:
    async with staged(host, fake("--era", "legacy")) as stage:
        await stage.opened()

        pong = await stage.call("ask", method="ping")
        declined = await stage.call("ask", method="sampling/createMessage", params={})

    assert json.loads(pong.text) == {}
    assert json.loads(declined.text)["code"] == -32601


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_changed_list_is_read_anew(host: Host, era: str) -> None:
    async with staged(host, fake("--era", era, "--tools", "1")) as stage:
        await stage.opened()

        await stage.call("change_tools", add=2)

        await until(lambda: len(stage.listings) > 1)
        assert stage.listings[-1] == ["echo", "extra_1", "extra_2"]


@pytest.mark.parametrize(
    ("broken_at", "silent_at", "warning"),
    [(2, 0, "tool list cannot be read"), (0, 2, "a new one did not come in time")],
)
async def test_a_new_list_that_fails_leaves_the_old_one(
    host: Host,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    broken_at: int,
    silent_at: int,
    warning: str,
) -> None:
    monkeypatch.setattr(conversation, "_SHARE", 0)  # one that took long is followed by no long rest here
    argv = small_server(silent_at=silent_at, broken_at=broken_at, on_call=TELL)
    async with staged(host, argv, Dialect(limits=Limits(listing=1.0 if silent_at else PATIENCE))) as stage:
        await stage.opened()
        await stage.call("anything")
        await until(lambda: warning in caplog.text)

        await stage.call("anything")

        await until(lambda: len(stage.listings) > 1)
        assert stage.listings == [["tool_1"], ["tool_3"]]


async def test_stderr_is_kept_and_never_blocks_the_server(host: Host) -> None:
    async with staged(host, fake("--stderr", "hello", "--stderr-flood", "1000000")) as stage:
        await stage.opened()
        assert (await stage.call("stderr", bytes=1_000_000)).text == "said"

        await until(lambda: stage.log.total_bytes == 2_000_006)


async def test_stderr_is_shown_in_the_debug_log(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    async with staged(host, fake("--stderr", "what I have to say")) as stage:
        await stage.opened()

    assert "server: stderr: what I have to say" in caplog.text
