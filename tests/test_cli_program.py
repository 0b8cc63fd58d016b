"""The command as a program: what it loads, how it ends, where it looks for the daemon."""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from supervisor.__main__ import is_daemon
from supervisor.cli.failures import Usage
from supervisor.cli.parser import parse
from supervisor.errors import DaemonUnreachable
from supervisor.surfaces.client import SyncClient
from tests.cli_support import WAIT, Answer, Connection, Message, scripted_daemon

HEAVY = ("anyio", "asyncio", "logging", "mcp", "msgspec", "pydantic", "supervisor.runtime", "uvloop")
PROGRAM = (sys.executable, "-m", "supervisor")
ECHO = {"result": {"content": [{"type": "text", "text": "é…"}]}}


def start(words: Sequence[str], **options: Any) -> "subprocess.Popen[str]":
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(words, text=True, **{**streams, **options})


def test_client_verbs_load_nothing_heavy(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """The reason for a start of about 80 ms of CPU."""
    script = (
        "import json, sys, time; from supervisor.cli import main\n"
        "status = main(sys.argv[1:])\n"
        f"loaded = [name for name in {HEAVY!r} if name in sys.modules]\n"
        "print(json.dumps([status, loaded, time.process_time()]))\n"
    )
    answers: dict[str, Answer] = {
        "servers/list": {"result": {"servers": []}},
        "supervisor/info": {"result": {}},
    }
    environ = {key: value for key, value in os.environ.items() if not key.startswith("COVERAGE")}
    with (
        scripted_daemon(tmp_path, answers) as daemon,
        start([sys.executable, "-c", script, "status", "--socket", daemon.path], env=environ) as child,
    ):
        output, _ = child.communicate(timeout=WAIT * 4)

    status, loaded, cpu = json.loads(output.splitlines()[-1])
    record_property("cpu_seconds", cpu)
    assert (status, loaded) == (0, [])


def test_ctrl_c_on_a_terminal_cancels_the_call_and_exits_130(tmp_path: Path) -> None:
    def begin(connection: Connection, message: Message) -> None:
        token = message["params"]["_meta"]["progressToken"]
        progress = {"progressToken": token, "progress": 1, "message": "begun"}
        connection.send({"method": "notifications/progress", "params": progress})

    terminal, end = os.openpty()
    # What a shell starts in the background ignores SIGINT, and so would the program.
    heeding = ["env", "--default-signal=INT"]
    words = [*heeding, *PROGRAM, "call", "demo_wait", "--socket", str(tmp_path / "control.sock")]
    with scripted_daemon(tmp_path, {"tools/call": begin}) as daemon, start(words, stderr=end) as child:
        shown = b""
        while b"begun" not in shown:
            assert select.select([terminal], [], [], WAIT * 4)[0]
            shown += os.read(terminal, 1000)
        child.send_signal(signal.SIGINT)
        child.wait(WAIT * 4)
    os.close(terminal)
    os.close(end)

    assert child.returncode == 130
    assert daemon.asked("notifications/cancelled") == {"requestId": 1}


def signalled(number: signal.Signals, module: str, words: Sequence[str]) -> "subprocess.Popen[str]":
    """The program, to which a signal comes while it loads this module."""
    script = f"""if True:
        import os, signal, sys
        from importlib.abc import MetaPathFinder

        class Sender(MetaPathFinder):
            def find_spec(self, name, path, target=None):
                if name == {module!r}:
                    sys.meta_path.remove(self)
                    os.kill(os.getpid(), {int(number)})

        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.meta_path.insert(0, Sender())
        from supervisor.__main__ import entry
        entry()
    """
    return start([sys.executable, "-c", script, *words])


@pytest.mark.parametrize("module", ["supervisor.cli", "supervisor.cli.status", "supervisor.surfaces.client"])
def test_ctrl_c_while_it_is_loaded_ends_it_without_a_word(module: str, tmp_path: Path) -> None:
    with signalled(signal.SIGINT, module, ["status", "--socket", str(tmp_path / "none")]) as child:
        said = child.communicate(timeout=WAIT * 4)

    assert (child.returncode, said) == (130, ("", ""))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("module", ["supervisor.cli", "argparse", "supervisor.daemon"])
def test_a_daemon_that_is_told_to_end_while_it_is_loaded_begins_nothing(
    module: str, number: signal.Signals, tmp_path: Path
) -> None:
    config, socket = tmp_path / "mcp.json", tmp_path / "control.sock"
    config.write_text(json.dumps({"mcpServers": {"a": {"command": "touch", "args": [str(tmp_path / "a")]}}}))

    words = ["run", "--config", str(config), "--socket", str(socket)]
    with signalled(number, module, words) as child:
        said = child.communicate(timeout=WAIT * 4)

    assert (child.returncode, said) == (0, ("", ""))
    assert set(tmp_path.iterdir()) == {config}


def verb_of(words: Sequence[str]) -> str | None:
    """What is done in the end; None when the words make no command, or ask for help."""
    try:
        command: Any = parse(words)
    except (Usage, SystemExit):
        return None
    verb: str = command.args[0].verb
    return verb


@pytest.mark.parametrize("before", ["run", "status", "--json", "--socket", "--socket=run", "--"])
def test_signals_are_held_back_for_the_daemon_and_for_no_client(before: str) -> None:
    after = ("run", "status", "--json", "--socket")
    lines = [[before, *words] for count in range(4) for words in product(after, repeat=count)]
    verbs = [(is_daemon(words), verb) for words in lines if (verb := verb_of(words)) is not None]

    assert set(verbs) <= {(True, "run"), (False, "status")}


def test_closed_streams_do_no_harm() -> None:
    with start(["/bin/sh", "-c", f"{' '.join(PROGRAM)} version <&- >&- 2>&-"]) as child:
        child.communicate(timeout=WAIT * 4)

    assert child.returncode == 0


def test_a_reader_that_goes_away_ends_it_quietly(tmp_path: Path) -> None:
    gone = threading.Event()

    def answer(connection: Connection, message: Message) -> None:
        assert gone.wait(WAIT)
        connection.send({"id": message["id"], **ECHO})

    with (
        scripted_daemon(tmp_path, {"tools/call": answer}) as daemon,
        start([*PROGRAM, "call", "demo_x", "--socket", daemon.path]) as child,
    ):
        assert child.stdout is not None
        child.stdout.close()
        gone.set()
        assert child.stderr is not None
        said = child.stderr.read()
        child.wait(WAIT * 4)

    assert (child.returncode, said) == (141, "")


def test_a_poor_locale_costs_characters_and_no_traceback(tmp_path: Path) -> None:
    with (
        scripted_daemon(tmp_path, {"tools/call": ECHO}) as daemon,
        start(
            [*PROGRAM, "call", "demo_x", "--socket", daemon.path],
            env={**os.environ, "PYTHONIOENCODING": "ascii"},
        ) as child,
    ):
        output, _ = child.communicate(timeout=WAIT * 4)

    assert (child.returncode, output) == (0, "\\xe9\\u2026\n")


def test_an_unreachable_daemon_is_exit_69_of_the_program(tmp_path: Path) -> None:
    with start([*PROGRAM, "status", "--socket", str(tmp_path / "none")]) as child:
        _, said = child.communicate(timeout=WAIT * 4)

    assert child.returncode == 69
    assert said.startswith("mcp-supervisor: cannot reach the daemon")


@pytest.fixture
def environ(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mapping[str, str]]:
    for name in ("MCP_SUPERVISOR_SOCKET", "RUNTIME_DIRECTORY"):
        monkeypatch.delenv(name, raising=False)
    # A socket's path is short, and pytest's own directories are not.
    with tempfile.TemporaryDirectory(prefix="s") as session:
        monkeypatch.setenv("XDG_RUNTIME_DIR", session)
        yield os.environ


def test_the_daemon_of_the_session_is_found(environ: Mapping[str, str]) -> None:
    directory = Path(environ["XDG_RUNTIME_DIR"], "mcp-supervisor")
    directory.mkdir(parents=True)

    with scripted_daemon(directory, {}) as daemon, SyncClient() as client:
        assert client.path == daemon.path


def test_the_next_place_is_tried_when_the_first_is_empty(
    environ: Mapping[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("supervisor.core.paths.SYSTEM_SOCKET", str(tmp_path / "control.sock"))

    with scripted_daemon(tmp_path, {}) as daemon, SyncClient() as client:
        assert client.path == daemon.path


def test_a_private_directory_of_somebody_else_is_passed_by(
    environ: Mapping[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stranger = os.getuid() + 1
    monkeypatch.setattr(os, "getuid", lambda: stranger)
    monkeypatch.setattr("supervisor.core.paths.private_directory", lambda uid: str(tmp_path))
    monkeypatch.setattr("supervisor.surfaces.exchange.private_directory", lambda uid: str(tmp_path))
    monkeypatch.setattr("supervisor.core.paths.SYSTEM_SOCKET", str(tmp_path / "none"))

    with (
        scripted_daemon(tmp_path, {}),
        pytest.raises(DaemonUnreachable, match=r"no socket at .* or "),
    ):
        SyncClient()
