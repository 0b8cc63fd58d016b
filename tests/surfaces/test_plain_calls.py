"""The quick look at a call in its plain form never says anything but what the strict reader says."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.jsonrpc import Request, read_request
from supervisor.surfaces.tool_methods import read_call, read_plain_call

CALL = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a_b","arguments":{"text":"x"}}}'
DEPTH = 20

_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=5)
    | st.sampled_from(["}", "\\", "id", "[["]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_params = st.fixed_dictionaries(
    {"name": st.text(max_size=5)}, optional={"arguments": _json, "_meta": _json, "approved": st.booleans()}
)
_calls = st.builds(
    lambda identity, params, style: json.dumps(
        {"jsonrpc": "2.0", "id": identity, "method": "tools/call", "params": params}, **style
    ).encode(),
    _json,
    _params,
    st.fixed_dictionaries(
        {
            "separators": st.sampled_from([(",", ":"), (", ", ": "), (" ,", " :")]),
            "ensure_ascii": st.booleans(),
        }
    ),
)


@st.composite
def _damaged(draw: st.DrawFn) -> bytes:
    """A call in which a few bytes stand that do not belong there."""
    line = draw(_calls)
    at = draw(st.integers(0, len(line)))
    wrong = draw(
        st.binary(max_size=2) | st.sampled_from([b"}", b"{", b'"', b',"id":1', b',"id":{}', b"\n", b"\\"])
    )
    return line[:at] + wrong + line[at + draw(st.integers(0, 2)) :]


@given(_calls | _damaged())
def test_what_is_read_at_a_glance_is_what_the_strict_reader_reads(line: bytes) -> None:
    plain = read_plain_call(line, DEPTH)

    if plain is not None:
        strict = read_request(line, max_depth=DEPTH)
        assert isinstance(strict, Request)
        assert (strict.id, strict.method) == (plain[0], "tools/call")
        assert read_call(strict.params) == plain[1]


@pytest.mark.parametrize(
    ("line", "identity"),
    [
        (CALL, b"7"),
        (CALL + b"\n", b"7"),
        (CALL + b"\r\n", b"7"),
        (CALL.replace(b":7", b":0"), b"0"),
        (CALL.replace(b":7", b':"call 7"'), b'"call 7"'),
        (json.dumps(json.loads(CALL)).encode(), b"7"),
    ],
)
def test_the_usual_form_is_read_at_a_glance(line: bytes, identity: bytes) -> None:
    plain = read_plain_call(line, DEPTH)

    assert plain is not None
    assert (plain[0], plain[1].name) == (identity, "a_b")
    assert json.loads(bytes(plain[1].arguments)) == {"text": "x"}


def _with(**changed: Any) -> bytes:
    return json.dumps({**json.loads(CALL), **changed}).encode()


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(CALL + b"\n" + CALL, id="two lines"),
        pytest.param(CALL[:-1] + b',"id":{}}', id="a key twice"),
        pytest.param(CALL[:-1] + b',"more":{}}', id="a key that we do not know"),
        pytest.param(CALL.replace(b'"x"', b'"\xff"'), id="not UTF-8"),
        pytest.param(CALL.replace(b'"x"', b'"\xc3\xa9"'), id="not ASCII"),
        pytest.param(CALL.replace(b'"x"', b"[" * DEPTH + b"]" * DEPTH), id="too deep"),
        pytest.param(CALL.replace(b'"x"', b"x"), id="no JSON"),
        pytest.param(CALL.replace(b":7", b":07"), id="no number"),
        pytest.param(CALL.replace(b":7", b':"\x01"'), id="no string"),
        pytest.param(_with(params={"name": "a", "arguments": []}), id="arguments that are no object"),
        pytest.param(_with(params={"name": "a", "_meta": 1}), id="meta that is no object"),
        pytest.param(_with(params={}), id="no name"),
        pytest.param(_with(id=None), id="null for an id"),
        pytest.param(_with(method="tools/list"), id="another method"),
    ],
)
def test_anything_else_is_left_to_the_strict_reader(line: bytes) -> None:
    assert read_plain_call(line, DEPTH) is None
