"""`servers/why` on real children: what is told is what was so."""

import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from supervisor.core.diagnosis import Kind
from supervisor.core.phases import Idle, Ready, Stopped, Unavailable
from supervisor.errors import UnknownServer
from supervisor.runtime.bus import Bus
from supervisor.runtime.configfile import load
from supervisor.runtime.fleet import Fleet
from supervisor.runtime.memory import Memory
from supervisor.runtime.orphans import Orphans
from supervisor.runtime.process import death_signal_prefix
from supervisor.runtime.reload import Reloader
from supervisor.runtime.spawner import Spawner
from supervisor.runtime.stdio import Host
from supervisor.surfaces.explanation import Why
from supervisor.surfaces.server_methods import ServerParams
from supervisor.surfaces.service import Service
from supervisor.surfaces.why_methods import STDERR_SHOWN, why

FAKE = Path(__file__).parents[1] / "fake_servers" / "fake.py"
PATIENCE = 10.0
SECRET = "hunter2-and-more"

pytestmark = pytest.mark.anyio


class Nobody:
    """A caller who stays for one answer."""

    def follow(self, method: str) -> Callable[[bytes], None]:
        raise AssertionError(method)

    def on_leave(self, action: Callable[[], None]) -> None:
        raise AssertionError(action)


@dataclass
class Asked:
    """A fleet that runs what a file says, and can be asked."""

    service: Service

    async def why(self, server: str = "s") -> Why:
        """The answer once the server has come up, failed, or is at rest."""
        with anyio.fail_after(PATIENCE):
            await self.service.fleet.member(server).actor.reach(Ready, Unavailable)
        return self.now(server)

    def now(self, server: str = "s") -> Why:
        return why(self.service, ServerParams(server), Nobody())


@asynccontextmanager
async def fleet(directory: Path, environ: dict[str, str] | None = None, **entry: Any) -> AsyncIterator[Asked]:
    """One server `s`, running as its entry says."""
    file = directory / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"s": entry}}), encoding="utf-8")
    variables = {"PATH": os.environ["PATH"], "SECRET": SECRET, **(environ or {})}
    loaded, bus, memory = load((file,), variables), Bus(), Memory(None)
    host = Host(Orphans("why", adopts=False), memory, Spawner(death_signal_prefix))
    members = Fleet(loaded, host, variables, bus)
    service = Service(
        fleet=members,
        bus=bus,
        reloader=Reloader(members, loaded, lambda _: loaded, bus),
        memory=memory,
        socket="",
        pid=os.getpid(),
        started_at=0.0,
        shut_down=lambda: None,
    )
    async with members.running():
        members.start()
        yield Asked(service)


def fake(*options: object) -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-I", "-S", str(FAKE), *map(str, options)]}


def script(path: Path, text: str, mode: int = 0o755) -> str:
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return str(path)


async def test_a_connected_server_is_shown_as_it_was_started(tmp_path: Path) -> None:
    async with fleet(tmp_path, **fake("--tools", 2), cwd=str(tmp_path), env={"KEY": "v"}) as asked:
        answer = await asked.why()

    assert (answer.server, answer.state, answer.phase) == ("s", "connected", "ready")
    assert answer.suggestions[0].kind == Kind.FINE
    assert answer.protocol is not None
    assert [moment.what for moment in answer.timeline] == ["spawned", "heard", "greeted", "listed"]
    assert answer.timeline[0].offset == 0.0 <= answer.timeline[-1].offset
    assert answer.launch is not None
    assert (answer.launch.command, answer.launch.executable) == (sys.executable, sys.executable)
    assert answer.launch.cwd == str(tmp_path)
    assert answer.launch.environment == ("KEY", "PATH")
    assert (answer.source, answer.transport) == (str(tmp_path / "mcp.json"), "stdio")


async def test_a_command_that_is_nowhere_is_told_with_every_directory_that_was_searched(
    tmp_path: Path,
) -> None:
    gone = str(tmp_path / "gone")
    async with fleet(tmp_path, command="npx", env={"PATH": f"{tmp_path}:{gone}:{tmp_path}"}) as asked:
        answer = await asked.why()

    assert answer.suggestions[0].kind == Kind.NOT_FOUND
    assert answer.launch is not None
    assert answer.launch.executable is None
    assert [(each.directory, each.exists) for each in answer.launch.path] == [
        (str(tmp_path), True),
        (gone, False),
    ]


async def test_a_command_that_has_been_installed_since_is_told_to_be_there_now(tmp_path: Path) -> None:
    async with fleet(tmp_path, command="thing", env={"PATH": str(tmp_path)}) as asked:
        await asked.why()
        script(tmp_path / "thing", "#!/bin/sh\n")

        assert asked.now().suggestions[0].fix == "Run `mcp-supervisor restart s`."


async def test_a_file_on_path_without_the_executable_bit_is_named(tmp_path: Path) -> None:
    path = script(tmp_path / "thing", "#!/bin/sh\n", mode=0o644)
    async with fleet(tmp_path, command="thing", env={"PATH": str(tmp_path)}) as asked:
        answer = await asked.why()

    assert answer.suggestions[0].kind == Kind.NOT_EXECUTABLE
    assert path in answer.suggestions[0].cause
    assert answer.launch is not None
    assert answer.launch.executable == path


@pytest.mark.parametrize(
    ("first_line", "interpreter"),
    [
        ("#!/no/such/interpreter -x", "/no/such/interpreter"),
        ("#!/usr/bin/env no-such-program", "no-such-program"),
    ],
)
async def test_a_script_whose_interpreter_is_missing_names_it(
    tmp_path: Path, first_line: str, interpreter: str
) -> None:
    path = script(tmp_path / "thing", f"{first_line}\n")
    async with fleet(tmp_path, command=path) as asked:
        answer = await asked.why()

    assert answer.suggestions[0].kind == Kind.BAD_INTERPRETER
    assert f"a script for {interpreter}," in answer.suggestions[0].cause


async def test_paths_that_cannot_even_be_looked_at_count_as_not_there(tmp_path: Path) -> None:
    long = "/" + "x" * 300
    async with fleet(tmp_path, command=long, env={"PATH": long}) as asked:
        answer = await asked.why()

    assert answer.suggestions[0].kind == Kind.NOT_FOUND
    assert answer.launch is not None
    assert [each.exists for each in answer.launch.path] == [False]


async def test_a_pipe_in_the_place_of_a_command_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "thing", 0o755)
    async with fleet(tmp_path, command="thing", env={"PATH": str(tmp_path)}) as asked:
        answer = await asked.why()

    assert answer.suggestions[0].kind == Kind.PERMISSION


async def test_a_working_directory_that_does_not_exist_is_named(tmp_path: Path) -> None:
    async with fleet(tmp_path, **fake(), cwd="gone") as asked:
        answer = await asked.why()

    assert answer.suggestions[0].kind == Kind.NO_DIRECTORY
    assert answer.launch is not None
    assert answer.launch.cwd == str(tmp_path / "gone")
    assert answer.launch.executable == sys.executable


async def test_missing_variables_are_named_beside_the_entry_as_it_is_written(tmp_path: Path) -> None:
    async with fleet(tmp_path, command="${TOOL}", args=["${SECRET}"], cwd="x", inheritEnv=["OTHER"]) as asked:
        answer = await asked.why()

    assert answer.suggestions[0].kind == Kind.MISSING_VARIABLE
    assert answer.missing_variables == ("TOOL", "OTHER")
    assert answer.launch is not None
    assert (answer.launch.command, answer.launch.args, answer.launch.cwd) == ("${TOOL}", ("${SECRET}",), "x")
    assert (answer.launch.executable, answer.launch.path) == (None, ())


@pytest.mark.parametrize(
    ("entry", "found"),
    [
        ({"command": "sh"}, True),
        ({"command": "sh", "enabled": False}, True),
        ({"command": "sh", "env": {"PATH": "/nowhere"}}, False),
        ({"command": "sh", "env": {"PATH": "${TOKEN}"}}, False),
        ({"command": "./sh"}, False),
        ({"command": "no-such-program"}, False),
    ],
)
async def test_the_program_is_named_while_only_its_variables_are_missing(
    tmp_path: Path, entry: dict[str, Any], found: bool
) -> None:
    async with fleet(tmp_path, **{**entry, "args": ["${TOKEN}"]}) as asked:
        answer = asked.now()

    assert answer.launch is not None
    assert answer.launch.executable == (shutil.which("sh") if found else None)
    assert answer.launch.path == ()


async def test_a_wrong_entry_is_told_with_its_problems(tmp_path: Path) -> None:
    async with fleet(tmp_path, command=7) as asked:
        answer = await asked.why()

    assert answer.suggestions[0].kind == Kind.BAD_CONFIG
    assert len(answer.problems) == 1
    assert (answer.launch, answer.missing_variables) == (None, ())


async def test_a_server_without_a_process_has_nothing_launched(tmp_path: Path) -> None:
    async with fleet(tmp_path, url="http://127.0.0.1:9/mcp", enabled=False) as asked:
        answer = asked.now()

    assert answer.suggestions[0].kind == Kind.DISABLED
    assert (answer.launch, answer.transport) == (None, "streamableHttp")


async def test_an_exit_is_told_with_its_code_and_last_words_and_without_secrets(tmp_path: Path) -> None:
    entry = fake("--exit-at", "spawn", "--exit-code", 3, "--stderr", f"cannot open {SECRET}")
    async with fleet(tmp_path, **entry, env={"KEY": "${SECRET}"}) as asked:
        answer = await asked.why()

    assert answer.suggestions[0].kind == Kind.EXITED
    assert [(end.code, end.signal) for end in answer.ends] == [(3, None)]
    assert answer.stderr[-1].text == "cannot open ***"
    assert SECRET not in msgspec.json.encode(answer.suggestions).decode()


async def test_a_server_killed_from_outside_is_told_from_one_that_we_ended(tmp_path: Path) -> None:
    async with fleet(tmp_path, **fake("--tools", 1)) as asked:
        await asked.why()
        pid = asked.service.fleet.detail("s").pid
        assert pid is not None
        os.kill(pid, 9)
        with anyio.fail_after(PATIENCE):
            await asked.service.fleet.member("s").actor.reach(Unavailable)
        answer = asked.now()

    assert answer.suggestions[0].kind == Kind.KILLED
    assert answer.ends[-1].signal == 9


@pytest.mark.parametrize(
    ("kind", "entry"),
    [
        (Kind.ECHO, {"command": "/bin/cat"}),
        (Kind.NO_ANSWER, {"command": "sleep", "args": ["1000"], "startTimeout": 0.2}),
        (
            Kind.SLOW_DOWNLOAD,
            {"command": "sh", "args": ["-c", "exec sleep 1000", "npx"], "startTimeout": 0.2},
        ),
        (Kind.PROTOCOL, {**fake("--era", "modern"), "protocol": "2025-11-25"}),
        (Kind.PROTOCOL, {**fake("--version", "1999-01-01"), "protocol": "2025-11-25"}),
        (Kind.BROKEN_LISTING, fake("--endless-pages", "--same-cursor")),
        (Kind.BROKEN_PIPE, {"command": "sh", "args": ["-c", "exec sleep 1000 >&-"]}),
        (Kind.FRAMING, {**fake(), "framing": "content-length", "startTimeout": 2}),
        (Kind.BAD_INTERPRETER, {"command": "sh", "args": ["-c", "exec no-such-program"]}),
        (Kind.EXITED_CLEANLY, {"command": "true"}),
        (Kind.NO_TOOLS, fake("--tools", 0)),
        (Kind.NOISE, {"command": "sh", "args": ["-c", "echo ready; exec sleep 1000"], "startTimeout": 2}),
    ],
)
async def test_what_really_happens_is_recognised(tmp_path: Path, kind: Kind, entry: dict[str, Any]) -> None:
    async with fleet(tmp_path, **entry) as asked:
        answer = await asked.why()

    assert answer.suggestions[0].kind == kind, answer


async def test_noise_is_counted_and_shown_apart_from_stderr(tmp_path: Path) -> None:
    async with fleet(tmp_path, **fake("--garbage", "--tools", 1, "--stderr", "hello")) as asked:
        answer = await asked.why()

    assert answer.noise.count >= 2
    assert answer.noise.samples
    assert [line.text for line in answer.stderr] == ["hello"]


async def test_a_long_log_is_shown_by_its_last_lines(tmp_path: Path) -> None:
    numbers = 'i=0; while [ $i -lt 50 ]; do echo "line $i" >&2; i=$((i+1)); done; exit 1'
    async with fleet(tmp_path, command="sh", args=["-c", numbers]) as asked:
        answer = await asked.why()

    assert len(answer.stderr) == STDERR_SHOWN
    assert answer.stderr[-1].text == "line 49"


async def test_a_crash_loop_is_told_after_its_last_try(tmp_path: Path) -> None:
    restart = {"policy": "on-failure", "delay": 0.05, "maxFailures": 2}
    async with fleet(tmp_path, command="false", restart=restart) as asked:
        with anyio.fail_after(PATIENCE):
            await asked.service.fleet.member("s").actor.reach(Unavailable)
        answer = asked.now()

    assert answer.suggestions[0].kind == Kind.CRASH_LOOP
    assert len(answer.ends) == 2


async def test_a_server_at_rest_is_told_how_to_start_it(tmp_path: Path) -> None:
    async with fleet(tmp_path, **fake("--tools", 1)) as asked:
        await asked.why()
        with anyio.fail_after(PATIENCE):
            await asked.service.fleet.stop_server("s")
            await asked.service.fleet.member("s").actor.reach(Stopped, Idle)

        assert asked.now().suggestions[0].fix == "Run `mcp-supervisor start s`."


async def test_a_server_that_nobody_configured_is_unknown(tmp_path: Path) -> None:
    async with fleet(tmp_path, command="true") as asked:
        with pytest.raises(UnknownServer, match="cannot find server 'other'"):
            asked.now("other")


async def test_the_answer_is_camel_case_on_the_wire(tmp_path: Path) -> None:
    async with fleet(tmp_path, command="true") as asked:
        answer = json.loads(msgspec.json.encode(await asked.why()))

    assert list(answer) == [
        *("server", "state", "phase", "reason", "since", "suggestions", "source", "transport", "problems"),
        *("missingVariables", "launch", "protocol", "timeline", "ends", "stderr", "noise", "nextTry"),
    ]
    assert list(answer["launch"]) == ["command", "args", "executable", "cwd", "environment", "path"]
    assert list(answer["suggestions"][0]) == ["kind", "cause", "fix"]
