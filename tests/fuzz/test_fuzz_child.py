"""Any bytes from a server's stdout and stderr: the server may be given up, and nobody else notices."""

import base64
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.e2e.support import Daemon, Launcher, fake, launching, until

EXAMPLES = int(os.environ.get("FUZZ", "25"))
SCRIPT = Path(__file__).with_name("babbler.py")

answers: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0")},
    optional={
        "id": st.integers(-2, 12) | st.text(max_size=3) | st.none(),
        "result": st.sampled_from(
            [
                {},
                {"tools": []},
                {"tools": [{"name": "x", "inputSchema": {}}, 7], "nextCursor": "n"},
                {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {}},
                {"protocolVersion": 7},
                {"supportedVersions": ["2026-07-28"], "capabilities": {}},
                {"content": [{"type": "text", "text": "hi"}]},
                [],
                None,
            ]
        ),
        "error": st.sampled_from([{"code": -32601, "message": "no"}, {"code": "x"}, None, 7]),
        "method": st.sampled_from(
            ["notifications/tools/list_changed", "notifications/progress", "ping", "roots/list", ""]
        ),
        "params": st.sampled_from([{}, [], {"progressToken": 1, "progress": "x"}, None]),
    },
)
outputs = st.lists(
    st.one_of(
        answers.map(lambda answer: json.dumps(answer).encode() + b"\n"),
        st.binary(max_size=60),
        st.just(b"\n"),
        st.just(b"Content-Length: 99999999999999999999\r\n\r\n"),
        st.integers(1, 200).map(lambda depth: b"[" * depth + b"\n"),
        st.just(b"x" * 200_000),
    ),
    max_size=8,
).map(b"".join)


@pytest.fixture(scope="module")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launcher]:
    with launching(tmp_path_factory.mktemp("babble")) as launcher:
        launcher.start(fleet(), **SETTINGS)
        yield launcher


SETTINGS: dict[str, Any] = {"maxLineBytes": 100_000}


def fleet(*bad: dict[str, Any]) -> dict[str, Any]:
    return {"good": fake(), **{f"bad{number}": entry for number, entry in enumerate(bad)}}


def babbler(out: bytes, err: bytes, framing: str, *, stays: bool) -> dict[str, Any]:
    said = [base64.b64encode(part).decode() for part in (out, err)]
    arguments = ["-I", "-S", str(SCRIPT), *said, "stay" if stays else "leave"]
    limits = {"startTimeout": 0.3, "stopGrace": 0.05}
    return {"command": sys.executable, "args": arguments, "framing": framing, **limits}


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
)
@given(
    out=outputs,
    err=st.binary(max_size=200),
    framing=st.sampled_from(["newline", "content-length"]),
    stays=st.booleans(),
)
def test_no_bytes_of_a_server_hurt_anyone_but_itself(
    launcher: Launcher, out: bytes, err: bytes, framing: str, stays: bool
) -> None:
    daemon = launcher.started[0]
    pid = daemon.client.server("good")["pid"]
    launcher.configure(fleet(babbler(out, err, framing, stays=stays)), **SETTINGS)
    daemon.client.result("supervisor/reload")

    assert daemon.client.text("good_echo", text="well") == '{"text": "well"}'
    assert daemon.client.server("bad0")["name"] == "bad0"

    launcher.configure(fleet(), **SETTINGS)
    daemon.client.result("supervisor/reload")
    until(lambda: len(daemon.pids()) == 1)
    assert daemon.client.server("good")["pid"] == pid


def test_after_all_of_it_no_error_was_internal(launcher: Launcher) -> None:
    daemon: Daemon = launcher.started[0]

    assert [line["message"] for line in daemon.logged("error") if "exception" in line] == []
