"""The catalog: definitions in, one table and one listing out."""

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.catalog import (
    MAX_BYTES,
    MAX_DEPTH,
    BadDefinition,
    Catalog,
    LeftOut,
    Listed,
    Shelf,
    array,
    build,
    done,
    parse_tool,
    parse_tools,
)
from supervisor.core.generations import HISTORY, HISTORY_BYTES, Generations
from supervisor.core.policy import Annotations, Policy


def definition(name: str, **fields: Any) -> bytes:
    return json.dumps({"name": name, "inputSchema": {"type": "object"}, **fields}).encode()


def shelf(server: str, *tools: str, prefix: str | None = None, only: tuple[str, ...] | None = None) -> Shelf:
    parsed, bad = done(parse_tools([definition(tool) for tool in tools]))
    return Shelf(server, server if prefix is None else prefix, parsed, only, bad)


def shelf_of(*definitions: bytes) -> Shelf:
    parsed, bad = done(parse_tools(definitions))
    return Shelf("s", "s", parsed, None, bad)


def catalog(*shelves: Shelf, separator: str = "_", policy: Policy = "read-only") -> Catalog:
    return build(shelves, separator=separator, policy=policy)


def names(of: Catalog) -> list[str]:
    return [entry.public_name for entry in of.listed]


# Definitions.


def test_a_definition_becomes_a_tool_with_its_name_and_annotations() -> None:
    raw = definition("read", annotations={"readOnlyHint": True})

    tool = parse_tool(msgspec.Raw(raw))

    assert (tool.name, tool.annotations, tool.raw) == ("read", Annotations(True, False), raw)


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b"[]", "not a JSON object"),
        (b'{"name":', "not a JSON object"),
        (b'{"inputSchema":{}}', "name is not a string"),
        (b'{"name":7,"inputSchema":{}}', "name is not a string"),
        (b'{"name":"","inputSchema":{}}', "name is empty"),
        (b'{"name":"t"}', "inputSchema is not an object"),
        (b'{"name":"t","inputSchema":null}', "inputSchema is not an object"),
        (b'{"name":"t","inputSchema":{},"title":"\xff"}', "not UTF-8"),
        (definition("t", title="x" * MAX_BYTES), "larger than"),
        (b'{"name":"t","inputSchema":{"a":' + b"[" * MAX_DEPTH + b"]" * MAX_DEPTH + b"}}", "nests deeper"),
        (b'{"name":"t","inputSchema":{"a":' + b"[" * 9_999 + b"]" * 9_999 + b"}}", "nests deeper"),
    ],
)
def test_a_bad_definition_is_refused_with_what_is_wrong(raw: bytes, problem: str) -> None:
    with pytest.raises(BadDefinition, match=rf"^cannot list a tool whose .*{problem}"):
        parse_tool(raw)


def test_a_definition_with_many_brackets_that_do_not_nest_is_welcome() -> None:
    assert parse_tool(definition("t", examples=[[]] * 200)).name == "t"


def test_one_bad_tool_costs_that_tool_and_not_the_list() -> None:
    tools, bad = done(parse_tools([definition("a"), b"17", definition("b"), b'{"name":"c"}']))

    assert [tool.name for tool in tools] == ["a", "b"]
    assert [(entry.position, entry.name) for entry in bad] == [(2, ""), (4, "c")]


def test_of_a_tool_listed_twice_the_first_definition_stays_and_the_other_is_reported() -> None:
    tools, bad = done(parse_tools([definition("a", title="first"), definition("a", title="second")]))

    assert [json.loads(tool.raw)["title"] for tool in tools] == ["first"]
    assert [(entry.position, entry.reason) for entry in bad] == [
        (2, "cannot list a tool twice; its first definition stays")
    ]


# What clients see.


def test_a_definition_passes_byte_for_byte_but_for_its_name_and_the_stamp_in_its_meta() -> None:
    raw = (
        b'{"zeta":1.0,"name":"a","big":1000000000000000000000000000000,"none":null,"inputSchema":'
        b'{"x":1, "x":2.50},"caf\xc3\xa9":"\\u00e9\\/","_meta":{"own":1e2}}'
    )

    listing = catalog(shelf_of(raw)).listing()

    assert listing == (
        b'[{"zeta":1.0,"name":"s_a","big":1000000000000000000000000000000,"none":null,"inputSchema":'
        b'{"x":1, "x":2.50},"caf\xc3\xa9":"\\u00e9\\/","_meta":{"own":1e2,"server":"s","approval":"auto"}}]'
    )


@pytest.mark.parametrize("meta", [{"server": "liar", "approval": "auto"}, None, [1], "x"])
def test_a_server_cannot_say_whose_tool_it_is_nor_whether_it_needs_a_yes(meta: Any) -> None:
    listed = catalog(shelf_of(definition("a", _meta=meta)), policy="confirm").listed

    assert json.loads(listed[0].raw)["_meta"] == {"server": "s", "approval": "confirm"}


def test_a_tool_that_is_only_remembered_says_so() -> None:
    parsed, _ = done(parse_tools([definition("a")]))

    (listed,) = catalog(Shelf("s", "s", parsed, remembered=True)).listed

    assert json.loads(listed.raw)["_meta"] == {"server": "s", "approval": "auto", "remembered": True}


def test_a_definition_that_came_on_many_lines_is_listed_on_one() -> None:
    pretty = json.dumps(json.loads(definition("a", note="kept\nas it is")), indent=2).replace("\n", "\r\n")

    listing = catalog(shelf_of(pretty.encode())).listing()

    assert b"\n" not in listing
    assert b"\r" not in listing
    assert json.loads(listing)[0]["note"] == "kept\nas it is"


def test_the_listing_is_sorted_by_public_name() -> None:
    assert names(catalog(shelf("b", "x"), shelf("a", "z", "y"))) == ["a_y", "a_z", "b_x"]


def test_a_selection_lists_only_what_it_wants() -> None:
    whole = catalog(shelf("a", "x"), shelf("b", "x"))

    assert whole.listing(lambda entry: entry.server == "b") == array(whole.listed[1:])


def test_the_whole_listing_is_made_once() -> None:
    whole = catalog(shelf("a", "x"))

    assert whole.listing() is whole.listing()


def test_a_route_leads_to_the_server_and_the_name_that_it_knows() -> None:
    route = catalog(shelf("my server", 'say "hi"'), policy="confirm").route("my_server_say__hi_")

    assert route is not None
    assert (route.server, route.tool, route.approval) == ("my server", 'say "hi"', "confirm")
    assert route.tool_json == rb'"say \"hi\""'


def test_a_name_that_is_not_listed_has_no_route() -> None:
    assert catalog(shelf("a", "x")).route("a_y") is None


def test_counts_name_every_server_also_one_that_lists_nothing() -> None:
    assert catalog(shelf("a", "x", "y"), shelf("b")).counts == {"a": 2, "b": 0}


# What they do not see.


def test_a_tool_that_the_policy_refuses_is_left_out_with_the_reason() -> None:
    writes = definition("w", annotations={"readOnlyHint": False})

    refused = catalog(shelf_of(writes, definition("r")))

    assert names(refused) == ["s_r"]
    assert refused.left_out == (
        LeftOut("s", "w", "s_w", "policy", "it says readOnlyHint: false and the policy is read-only"),
    )


def test_a_tool_that_the_patterns_do_not_let_through_is_left_out() -> None:
    filtered = catalog(shelf("s", "read_a", "read_b", "write", only=("read_*", "!*_b")))

    assert names(filtered) == ["s_read_a"]
    assert [(entry.tool, entry.cause) for entry in filtered.left_out] == [
        ("read_b", "filter"),
        ("write", "filter"),
    ]


def test_bad_definitions_are_left_out_under_their_name_or_their_place() -> None:
    left_out = catalog(shelf_of(b"17", b'{"name":"t"}')).left_out

    assert [(entry.tool, entry.public_name, entry.cause) for entry in left_out] == [
        ("#1", "", "definition"),
        ("t", "s_t", "definition"),
    ]


def test_a_shared_name_goes_to_the_first_by_server_and_tool_and_the_other_says_to_whom() -> None:
    shared = catalog(shelf("a_b", "c"), shelf("a", "b_c", "b.c"))

    route = shared.route("a_b_c")
    assert route is not None
    assert (route.server, route.tool) == ("a", "b.c")
    assert [(entry.server, entry.tool) for entry in shared.left_out] == [("a", "b_c"), ("a_b", "c")]
    assert shared.left_out[1].reason == "the name belongs to tool 'b.c' of server 'a'; set another `prefix`"


def test_a_refused_tool_takes_no_name_from_another() -> None:
    refused = replace(
        shelf_of(definition("x", annotations={"readOnlyHint": False})), server="a", prefix="shared"
    )

    route = catalog(refused, shelf("b", "x", prefix="shared")).route("shared_x")

    assert route is not None
    assert route.server == "b"


def test_a_name_that_was_left_out_can_be_explained() -> None:
    left = catalog(shelf("s", "a", only=()))

    explained = left.why_not("s_a")

    assert explained is not None
    assert explained.cause == "filter"
    assert left.why_not("s_b") is None


# Properties.

SERVERS = st.text(alphabet="ab_.", min_size=1, max_size=4)
TOOLS = st.text(alphabet="ab_.", min_size=1, max_size=4)
FLEETS = st.dictionaries(SERVERS, st.lists(TOOLS, unique=True, max_size=4), max_size=5)


@given(FLEETS, st.sampled_from(["_", "__", ""]))
def test_every_tool_is_listed_once_or_left_out_once_and_routes_to_itself(
    fleet: dict[str, list[str]], separator: str
) -> None:
    built = catalog(*(shelf(server, *tools) for server, tools in fleet.items()), separator=separator)

    listed = [(entry.server, entry.tool.name) for entry in built.listed]
    left_out = [(entry.server, entry.tool) for entry in built.left_out]
    assert sorted(listed + left_out) == sorted((s, tool) for s, tools in fleet.items() for tool in tools)
    assert all(built.route(entry.public_name) is entry.route for entry in built.listed)


@given(FLEETS, st.randoms(use_true_random=False))
def test_the_order_of_shelves_and_of_tools_on_them_changes_no_byte(
    fleet: dict[str, list[str]], random: Any
) -> None:
    shelves = [shelf(server, *tools) for server, tools in fleet.items()]
    shuffled = [shelf(server, *random.sample(tools, len(tools))) for server, tools in fleet.items()]
    random.shuffle(shuffled)

    assert catalog(*shuffled).listing() == catalog(*shelves).listing()
    assert catalog(*shuffled).left_out == catalog(*shelves).left_out


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text().filter(lambda key: key not in {"name", "inputSchema", "_meta"}), JSON))
def test_fields_that_nobody_here_knows_arrive_as_they_were_sent(fields: dict[str, Any]) -> None:
    sent = json.loads(definition("t", **fields))

    (arrived,) = json.loads(catalog(shelf_of(definition("t", **fields)), policy="open").listing())

    assert {**arrived, "name": "t"} == {**sent, "_meta": {"server": "s", "approval": "auto"}}
    assert list(arrived) == [*sent, "_meta"]


# Speed is kept by remembering: a shelf that stays is not published again.


def test_a_shelf_that_did_not_change_is_not_published_again() -> None:
    stays = shelf("a", "x")

    before, after = catalog(stays, shelf("b", "y")), catalog(stays, shelf("b", "z"))

    assert after.listed[0] is before.listed[0]


def test_a_shelf_is_arranged_anew_for_another_policy_or_separator() -> None:
    one = shelf("a", "x")

    assert names(catalog(one)) == ["a_x"]
    assert names(catalog(one, separator="__")) == ["a__x"]
    assert catalog(one, policy="confirm").listed[0].approval == "confirm"


# Generations.


def grown(*catalogs: Catalog) -> Generations:
    generations = Generations()
    for each in catalogs:
        generations = generations.after(each)
    return generations


def told(generations: Generations, since: int) -> tuple[list[str], tuple[str, ...]] | None:
    difference = generations.since(since)
    if difference is None:
        return None
    return [entry.public_name for entry in difference.changed], difference.removed


def test_the_first_generation_is_one_and_empty() -> None:
    assert (Generations().number, Generations().catalog.listing()) == (1, b"[]")


def test_a_catalog_with_the_same_bytes_is_no_new_generation() -> None:
    renamed = grown(catalog(shelf("a", "x.y")), catalog(shelf("a", "x_y")))

    route = renamed.catalog.route("a_x_y")
    assert renamed.number == 2
    assert route is not None
    assert route.tool == "x_y"


def test_a_difference_names_what_is_new_what_is_altered_and_what_is_gone() -> None:
    old = shelf_of(definition("same"), definition("altered"), definition("gone"))
    new = shelf_of(definition("same"), definition("altered", title="other"), definition("new"))

    assert told(grown(catalog(old), catalog(new)), since=2) == (["s_altered", "s_new"], ("s_gone",))


def test_what_came_and_went_again_since_is_not_mentioned() -> None:
    without, having = catalog(shelf("a", "x")), catalog(shelf("a", "x", "y"))

    assert told(grown(without, having, without), since=2) == ([], ())


def test_nothing_changed_since_now() -> None:
    assert told(grown(catalog(shelf("a", "x"))), since=2) == ([], ())


@pytest.mark.parametrize("since", [3, -1])
def test_a_generation_that_never_was_has_no_difference(since: int) -> None:
    assert told(grown(catalog(shelf("a", "x"))), since=since) is None


def test_a_generation_too_long_ago_has_no_difference() -> None:
    many = grown(*(catalog(shelf("a", f"x{number}")) for number in range(HISTORY + 5)))

    assert many.number == HISTORY + 6
    assert told(many, since=many.number - HISTORY - 1) is None
    assert told(many, since=many.number - HISTORY) == ([f"a_x{HISTORY + 4}"], ("a_x4",))


def test_generations_are_forgotten_sooner_when_they_were_large() -> None:
    long = "x" * (HISTORY_BYTES // 18)
    shelves = [
        shelf_of(*(definition(f"t{tool}", description=f"{number}{long}") for tool in range(10)))
        for number in range(4)
    ]
    many = grown(*map(catalog, shelves))

    assert many.since(many.number - 1) is not None
    assert many.since(many.number - 2) is None


def test_a_tool_that_moves_out_of_what_a_client_may_see_is_removed_for_that_client() -> None:
    owner, heir = shelf("a", "x", prefix="p"), shelf("b", "x", prefix="p")
    moved = grown(catalog(owner, heir), catalog(heir))

    def of_first(entry: Listed) -> bool:
        return entry.server == "a"

    difference = moved.since(2, of_first)

    assert difference is not None
    assert (difference.changed, difference.removed) == ((), ("p_x",))


@given(st.lists(FLEETS, max_size=6), st.data())
def test_a_difference_turns_the_old_listing_into_the_new_one(
    fleets: list[dict[str, list[str]]], data: st.DataObject
) -> None:
    past = [Generations()]
    for fleet in fleets:
        past.append(past[-1].after(catalog(*(shelf(server, *tools) for server, tools in fleet.items()))))
    old, new = data.draw(st.sampled_from(past)), past[-1]

    difference = new.since(old.number)

    assert difference is not None
    patched = {entry.public_name: entry.raw for entry in old.catalog.listed}
    patched |= {entry.public_name: entry.raw for entry in difference.changed}
    assert set(difference.removed) <= set(patched)
    kept = {name: raw for name, raw in patched.items() if name not in difference.removed}
    assert kept == {entry.public_name: entry.raw for entry in new.catalog.listed}
