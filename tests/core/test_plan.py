"""What a reload would do to each server, from two specs."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.layers import candidates, merged_settings, read_layer
from supervisor.core.plan import Kind, diff, fingerprint
from supervisor.core.servers import BadServer, ServerSpec, Surroundings, specify

SECRETS = {"TOKEN": "one"}


def spec(environ: dict[str, str] | None = None, **keys: Any) -> ServerSpec | BadServer:
    """The server that an entry with these keys makes."""
    layer = read_layer(json.dumps({"mcpServers": {"s": {"command": "x", **keys}}}).encode(), file="/c.json")
    (found,) = candidates([layer], merged_settings([layer]).defaults)
    if found.entry is None:
        return BadServer("s", "/c.json", (), found.problems)
    variables = SECRETS if environ is None else environ
    around = Surroundings("/", variables, lambda reference: variables.get(reference.name), lambda _: {})
    return specify("s", found.entry, around, source="/c.json", shadows=())


def plan(before: ServerSpec | BadServer | None, after: ServerSpec | BadServer | None) -> Kind:
    running = {} if before is None else {"s": before}
    return diff(running, {} if after is None else {"s": after})["s"]


@pytest.mark.parametrize(
    "keys",
    [
        {"command": "y"},
        {"args": ["a"]},
        {"env": {"A": "b"}},
        {"cwd": "/tmp"},
        {"inheritEnv": ["A"]},
        {"protocol": "2025-11-25"},
        {"framing": "content-length"},
        {"type": "http", "url": "http://h/"},
        {"args": ["${UNSET}"]},
        {"roots": ["/srv"]},
    ],
    ids=str,
)
def test_what_launches_a_server_replaces_it(keys: dict[str, Any]) -> None:
    assert plan(spec(), spec(**keys)) == "replace"


@pytest.mark.parametrize(
    "keys",
    [
        {"restart": "always"},
        {"callTimeout": 5},
        {"stopGrace": 1},
        {"healthInterval": 5},
        {"tools": ["a*"]},
        {"prefix": "p"},
        {"maxConcurrency": 2},
        {"critical": True},
        {"start": "lazy"},
    ],
    ids=str,
)
def test_what_does_not_launch_it_only_retunes_it(keys: dict[str, Any]) -> None:
    assert plan(spec(), spec(**keys)) == "retune"


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        (None, spec(), "add"),
        (spec(), None, "remove"),
        (spec(), spec(), "unchanged"),
        (spec(), spec(enabled=False), "remove"),
        (spec(enabled=False), spec(), "add"),
        (spec(enabled=False), spec(enabled=False, args=["a"]), "retune"),
        (spec(), spec(command=5), "unchanged"),
        (spec(command=5), spec(command=5), "unchanged"),
        (spec(command=5), spec(command=6, args=1), "replace"),
        (spec(command=5), spec(), "replace"),
    ],
)
def test_what_happens_to_a_server_that_comes_goes_or_is_wrong(
    before: ServerSpec | BadServer | None, after: ServerSpec | BadServer | None, kind: Kind
) -> None:
    assert plan(before, after) == kind


@pytest.mark.parametrize(
    ("written", "otherwise"),
    [
        ({"env": {"T": "${TOKEN}"}}, {"env": {"T": "one"}}),
        ({"args": ["${TOKEN}"]}, {"args": ["one"]}),
        ({"command": "${TOKEN}"}, {"command": "one"}),
        ({"env": {"A": "1", "B": "2"}}, {"env": {"B": "2", "A": "1"}}),
        ({"inheritEnv": ["A", "B"]}, {"inheritEnv": ["B", "A", "B"]}),
        ({"cwd": "."}, {"cwd": "/"}),
        ({"cwd": "x"}, {"cwd": "/x/"}),
        ({"roots": ["/srv"]}, {"roots": ["/srv/"]}),
        ({"type": "http", "url": "http://${TOKEN}/"}, {"type": "http", "url": "http://one/"}),
        (
            {"type": "http", "url": "http://h/", "headers": {"A": "${TOKEN}"}},
            {"type": "http", "url": "http://h/", "headers": {"A": "one"}},
        ),
    ],
    ids=str,
)
def test_another_spelling_of_the_same_value_restarts_nothing(
    written: dict[str, Any], otherwise: dict[str, Any]
) -> None:
    assert plan(spec(**written), spec(**otherwise)) in {"retune", "unchanged"}
    assert plan(spec(**otherwise), spec(**written)) in {"retune", "unchanged"}


def test_a_changed_secret_replaces_exactly_its_server() -> None:
    before = {"a": spec(args=["${TOKEN}"]), "b": spec(args=["TOKEN"])}
    later = {"TOKEN": "two"}
    after = {"a": spec(later, args=["${TOKEN}"]), "b": spec(later, args=["TOKEN"])}

    assert diff(before, after) == {"a": "replace", "b": "unchanged"}


entries = st.fixed_dictionaries(
    {},
    optional={
        "args": st.lists(st.text(alphabet="ab", max_size=2), max_size=2),
        "env": st.dictionaries(st.sampled_from("AB"), st.sampled_from("xy")),
        "callTimeout": st.integers(1, 9),
    },
)


@given(keys=entries, order=st.randoms(use_true_random=False))
def test_the_order_of_keys_changes_nothing(keys: dict[str, Any], order: Any) -> None:
    shuffled = list(keys)
    order.shuffle(shuffled)

    assert plan(spec(**keys), spec(**{key: keys[key] for key in shuffled})) == "unchanged"


def named(environ: dict[str, str] | None = None, **keys: Any) -> str:
    """The fingerprint of the server that an entry with these keys makes."""
    made = spec(environ, **keys)
    assert isinstance(made, ServerSpec)
    return fingerprint(made)


@pytest.mark.parametrize(
    "keys",
    [
        {"command": "y"},
        {"args": ["a"]},
        {"env": {"A": "b"}},
        {"cwd": "/tmp"},
        {"inheritEnv": ["A"]},
        {"protocol": "2025-11-25"},
        {"framing": "content-length"},
        {"type": "http", "url": "http://h/"},
        {"type": "http", "url": "http://h/", "headers": {"A": "b"}},
        {"args": ["${UNSET}"]},
    ],
    ids=str,
)
def test_what_launches_a_server_is_in_its_fingerprint(keys: dict[str, Any]) -> None:
    assert named(**keys) != named()


@pytest.mark.parametrize("keys", [{"callTimeout": 5}, {"prefix": "p"}, {"tools": ["a*"]}], ids=str)
def test_what_does_not_launch_it_is_not_in_its_fingerprint(keys: dict[str, Any]) -> None:
    assert named(**keys) == named()


def test_the_order_of_variables_does_not_change_a_fingerprint() -> None:
    assert named(env={"A": "1", "B": "2"}) == named(env={"B": "2", "A": "1"})


def test_another_secret_is_another_fingerprint() -> None:
    assert named({"TOKEN": "one"}, env={"T": "${TOKEN}"}) != named({"TOKEN": "two"}, env={"T": "${TOKEN}"})
