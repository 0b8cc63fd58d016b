"""Any bytes from a server, before its greeting and around its answers: nobody but itself is given up.

Each call ends once, with a true account: nobody is told what the server has not said.
"""

import base64
import itertools
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from supervisor.errors import Outcome
from supervisor.selftest.case import GOOD, INNOCENTS
from supervisor.selftest.lab import until
from tests.e2e.support import Client
from tests.files import save, whole_lines
from tests.fuzz.laboratory import LONG, Laboratory, laboratory

EXAMPLES = int(os.environ.get("FUZZ", "60"))
SCRIPT = Path(__file__).with_name("babbler.py")
CALLS = 3
LONGEST = 4 << 20
"""Bytes of a message of a server."""
HEAVY = b'{"jsonrpc":"2.0","id":1000,"result":[%s]}\n' % (b"," * 3_300_000)
"""What would take too long to read."""
HUGE = {"": b"", "heavy": HEAVY, "long": b"x" * (LONGEST + 1)}
NOBODY = "nobody asked"
Json = dict[str, Any]

answers: st.SearchStrategy[Json] = st.fixed_dictionaries(
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
    ),
    max_size=8,
).map(b"".join)
harmless = st.lists(
    st.one_of(
        answers.map(lambda answer: json.dumps({**answer, "id": NOBODY}).encode()),
        st.binary(max_size=60).map(lambda line: line.replace(b"\n", b"")),
    ).map(lambda line: line + b"\n"),
    max_size=4,
).map(b"".join)


@st.composite
def speeches(draw: st.DrawFn) -> Json:
    """What the babbler is told: to babble before its greeting, harmlessly between answers, or anywhere."""
    kind = draw(st.sampled_from(["early", "harmless", "wild"]))
    noise = harmless if kind == "harmless" else outputs
    spoken = {
        "early": draw(outputs.filter(bool)) if kind == "early" else b"",
        "before": draw(noise),
        "after": draw(noise),
        "inside": draw(outputs) if kind == "wild" else b"",
        "err": draw(st.binary(max_size=200)),
    }
    return {
        **spoken,
        "kind": kind,
        "huge": draw(st.sampled_from([""] * 9 + ["heavy", "heavy" if kind == "harmless" else "long"])),
        "at": draw(st.floats(0, 1)),
        "cuts": draw(st.lists(st.integers(1, 4096), min_size=1, max_size=5)),
        "calls": draw(st.integers(1, CALLS)),
        "framing": "newline" if kind == "harmless" else draw(st.sampled_from(["newline", "content-length"])),
        "modern": draw(st.booleans()),
        "stays": draw(st.booleans()),
    }


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    directory = tmp_path_factory.mktemp("babble")
    with laboratory(directory, INNOCENTS, mended=alone, maxLineBytes=LONGEST) as lab:
        yield lab


def alone(lab: Laboratory) -> None:
    """Have nobody but the innocent."""
    lab.reload(INNOCENTS)


@LONG
def test_no_bytes_of_a_server_hurt_anyone_but_itself(lab: Laboratory) -> None:
    innocent, connected = lab.client.server(GOOD)["pid"], Counter[bool]()
    paths = (lab.directory / f"speech-{number}" for number in itertools.count())

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)
    @given(speech=speeches())
    def converse(speech: Json) -> None:
        connected[exchange(lab, speech, next(paths))] += 1
        assert lab.client.server(GOOD)["pid"] == innocent

    converse()
    assert connected[True] > connected[False]


PHASES = (Phase.explicit, Phase.generate, Phase.shrink)


def exchange(lab: Laboratory, speech: Json, path: Path) -> bool:
    """Have calls under way to a server that says this; returns whether it had connected."""
    save(path, json.dumps({**speech, **written(speech)}))
    lab.reload({**INNOCENTS, "bad": babbler(path, speech)})
    connected = str(lab.client.server("bad")["state"]) == "connected"
    assert connected or speech["kind"] == "early"
    texts = [f"{path.name}-{number}" for number in range(speech["calls"])]
    for text, answer in answered(lab, texts, timeout=10 if speech["kind"] == "harmless" else 0.3).items():
        judge(speech, answer, Heard(path, text))
    alone(lab)
    until(lambda: len(lab.processes()) == 1)
    return connected


def written(speech: Json) -> dict[str, str]:
    """Its bytes as a file has them; only here, as nobody wants to read what is huge."""
    whole = {**speech, "after": speech["after"] + HUGE[speech["huge"]]}
    return {what: base64.b64encode(said).decode() for what, said in whole.items() if isinstance(said, bytes)}


def babbler(path: Path, speech: Json) -> Json:
    arguments = ["-I", "-S", str(SCRIPT), str(path)]
    start = 1 if speech["kind"] == "early" else 10
    limits = {"startTimeout": start, "stopGrace": 0.05}
    return {"command": sys.executable, "args": arguments, "framing": speech["framing"], **limits}


def answered(lab: Laboratory, texts: list[str], *, timeout: float) -> dict[str, Json]:
    """Call the bad server and the innocent by turns, all at once; each is answered once."""
    with Client(lab.socket) as client:
        asked, innocent = dict[int, str](), list[int]()
        for text in texts:
            asked[client.ask("tools/call", name="bad_echo", arguments={"text": text}, timeout=timeout)] = text
            innocent.append(client.ask("tools/call", name=f"{GOOD}_echo", arguments={"text": text}))
        found = [client.receive() for _ in (*asked, *innocent)]
        assert client.result("supervisor/ping") == {}
    answers = {answer["id"]: answer for answer in found}
    assert len(answers) == len(found)
    assert all(answers[each]["result"]["content"][0]["text"] in texts for each in innocent)
    return {text: answers[each] for each, text in asked.items()}


class Heard:
    """What the babbler knows of one call."""

    def __init__(self, path: Path, text: str) -> None:
        self.text = text
        journal, self._said = (path.with_name(path.name + suffix) for suffix in (".heard", ".said"))
        heard = map(json.loads, whole_lines(journal)) if journal.exists() else ()
        self.numbers = [line["id"] for line in heard if line["text"] == text]

    def answers(self) -> Iterator[Json]:
        """Every message in what it said that answers this call, however it is framed."""
        said = self._said.read_bytes().decode(errors="replace") if self._said.exists() else ""
        read = json.JSONDecoder(strict=False).raw_decode
        for start in re.finditer("{", said):
            try:
                message = read(said, start.start())[0]
            except ValueError:
                continue
            if message.get("id") in self.numbers:
                yield message


def judge(speech: Json, answer: Json, heard: Heard) -> None:
    """What the caller is told is what happened."""
    assert len(heard.numbers) <= 1, "a call was sent twice"
    outcome = outcome_of(answer)
    if outcome == Outcome.NOT_SENT:
        assert not heard.numbers
    if outcome is None:
        told = ("result", "error")
        said = [{key: each[key] for key in told if key in each} for each in heard.answers()]
        assert {key: answer[key] for key in told if key in answer} in said
    if speech["kind"] == "harmless":
        assert answer["result"]["content"][0]["text"] == heard.text


def outcome_of(answer: Json) -> Outcome | None:
    """What the daemon says became of the call; None when it has passed on what the server said."""
    data = answer.get("error", {}).get("data")
    return Outcome(data["outcome"]) if isinstance(data, dict) and "outcome" in data else None
