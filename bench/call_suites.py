"""What calls and listings cost while everything is up. Figures are medians of rounds taken in turn."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial

from bench.calm import Taken, calmest
from bench.chance import between
from bench.field import Entrant, Ground, compared, fleet_of
from bench.figures import FLOOR, NANO, RELAY, Compared, Figure, percentile
from bench.load import ECHO, ECHO_ARGUMENTS
from bench.plan import Plan, Rounds, Spent
from bench.processes import on_one_processor

BIG = 1_000_000
MANY_TOOLS = 500
_BETWEEN_BLOCKS = 20
"""Calls of an entrant whose turn it is that are not counted."""
_MOST = 100_000
"""Calls that nobody makes within a block."""
_GROWING = 2
"""Large answers at the beginning whose time is not counted: buffers grow."""
OWN_CALLS = (
    "CPU per call: of the process that holds the servers' pipes; that of floor, bare, bare-uvloop and sdk is "
    "what makes the calls, too, and a gateway's is not"
)
LIST_NEWS = ("plain", "thin")
"""Clients that ask only for what is new."""


def sequential(ground: Ground, plan: Plan) -> list[Figure]:
    """One call at a time, all on one processor.

    No two of these processes have something to do at the same time. On several processors a call is as fast
    as a sleeping one is woken, twice for the floor and four times for a gateway, or as the scheduler spares
    them that; on a virtual machine that is most of the time and changes from minute to minute.
    """
    ground.remark(OWN_CALLS)
    with on_one_processor(), ground.field(fleet_of(1)) as entrants:
        return list(_one_at_a_time(entrants, plan, "sequential"))


def calls(ground: Ground, plan: Plan) -> list[Figure]:
    """One call at a time, many at a time, over many servers, and large results; on all processors."""
    ground.remark(OWN_CALLS)
    with ground.field(fleet_of(8)) as entrants:
        many = [entrant for entrant in entrants if entrant.name != RELAY]
        return [
            *_one_at_a_time(entrants, plan, "sequential on all processors"),
            *_in_flight(many, plan, servers=1, in_flight=32),
            *_in_flight(many, plan, servers=8, in_flight=64),
            _big_results(entrants, plan),
        ]


def _one_at_a_time(entrants: Sequence[Entrant], plan: Plan, title: str) -> Iterator[Figure]:
    """Short blocks in turn, all calls of one contender taken together: a p99 needs many of them.

    What disturbs the machine disturbs the blocks of all, and how far it moves a ratio can be told from them.
    """
    spent = Spent()
    turns = list(_turns(entrants, plan, title, spent))
    blocks = calm_blocks(turns, least=plan.blocks // 3)
    for share in (0.5, 0.99):
        name = f"{title} p{100 * share:.0f}"
        yield Figure(name, "seconds", pooled(blocks, share), ratios_between(blocks, share))
    yield Figure(f"{title}: CPU per call", "seconds", spent.per_call)


Block = dict[str, list[int]]
"""How long calls took, by contender."""
Turn = dict[str, Taken[list[int]]]
"""The same, with what was stolen meanwhile."""


def _turns(entrants: Sequence[Entrant], plan: Plan, title: str, spent: Spent) -> Iterator[Turn]:
    """Blocks of equal duration, one of each contender in a turn; all are warmed up before the first."""
    for entrant in entrants:
        with entrant.excused(title):
            plan.warm(entrant)
    for _ in plan.rounds_of(plan.blocks):
        turn: Turn = {}
        for entrant in [each for each in entrants if not each.out]:
            with entrant.excused(title):
                plan.warm(entrant, _BETWEEN_BLOCKS)
                turn[entrant.name] = plan.calm.take(partial(_block, entrant, plan, spent))
        yield turn


def _block(entrant: Entrant, plan: Plan, spent: Spent) -> list[int]:
    calls = {"tool": ECHO, "arguments": ECHO_ARGUMENTS, "times": _MOST, "longest": plan.block}
    with spent.on(entrant):
        taken: list[int] = entrant.ask("in_turn", **calls)
    spent.count(entrant, len(taken))
    return taken


def calm_blocks(turns: Sequence[Mapping[str, Taken[list[int]]]], least: int) -> list[Block]:
    """Of each contender the calm blocks, at least so many; a turn may lack some."""
    blocks: list[Block] = [{} for _ in turns]
    for name in {name: None for turn in turns for name in turn}:
        taken = [
            Taken((block, turn[name].value), turn[name].stolen)
            for block, turn in zip(blocks, turns, strict=True)
            if name in turn
        ]
        for block, calls in calmest(taken, least):
            block[name] = calls
    return blocks


def pooled(blocks: Sequence[Block], share: float) -> dict[str, float]:
    """The percentile of all calls of each contender."""
    names = {name: None for block in blocks for name in block}
    return {name: _of_all(blocks, name, share) * NANO for name in names}


def ratios_between(blocks: Sequence[Block], share: float) -> dict[Compared, tuple[float, float]]:
    """How far chance may have moved the ratios of percentiles that are judged."""
    pairs = compared({name for block in blocks for name in block})
    common = {pair: [block for block in blocks if block.keys() >= set(pair)] for pair in pairs}
    return {
        pair: between(both, partial(_ratio, pair=pair, share=share)) for pair, both in common.items() if both
    }


def _ratio(blocks: Sequence[Block], pair: Compared, share: float) -> float:
    ours, theirs = (_of_all(blocks, name, share) for name in pair)
    return ours / theirs


def _of_all(blocks: Sequence[Block], name: str, share: float) -> float:
    return percentile([call for block in blocks for call in block.get(name, ())], share)


def _in_flight(entrants: Sequence[Entrant], plan: Plan, *, servers: int, in_flight: int) -> Iterator[Figure]:
    rates, spent = Rounds(), Spent()
    where = f"{in_flight} in flight, {servers} server{'s' if servers > 1 else ''}"
    for entrant in [each for each in entrants if not each.out]:
        with entrant.excused(where):
            entrant.ask("at_once", servers=servers, in_flight=in_flight, times=plan.warm_up)
    for entrant in plan.turns(entrants):
        with entrant.excused(where):
            plan.warm(entrant, _BETWEEN_BLOCKS)
            flood = partial(_rate, entrant, spent, servers=servers, in_flight=in_flight, times=plan.flood)
            rates.add(entrant.name, plan.calm.take(flood))
    yield Figure(where, "calls/s", rates.medians, rates.between)
    yield Figure(f"{where}: CPU per call", "seconds", spent.per_call)


def _rate(entrant: Entrant, spent: Spent, **flood: int) -> float:
    with spent.on(entrant):
        made, nanoseconds = entrant.ask("at_once", **flood)
    spent.count(entrant, made)
    return float(made / (nanoseconds * NANO))


def _big_results(entrants: Sequence[Entrant], plan: Plan) -> Figure:
    middle = Rounds()
    for entrant in plan.turns(entrants):
        with entrant.excused("1 MB result"):
            big = partial(_p50, entrant, "in_turn", tool="big", arguments={"bytes": BIG}, times=plan.big)
            middle.add(entrant.name, plan.calm.take(big))
    return Figure("1 MB result p50", "seconds", middle.medians, middle.between)


def _p50(entrant: Entrant, command: str, **options: object) -> float:
    """In seconds, after the beginning; of all times when a slow one came no further."""
    taken: list[int] = entrant.ask(command, **options)
    return percentile(taken[_GROWING:] or taken, 0.5) * NANO


def listing(ground: Ground, plan: Plan) -> list[Figure]:
    """All tools of a server that has 500, in full and when nothing is new."""
    whole, news = Rounds(), Rounds()
    ground.peers_lack("list again with since", "none lists only what is new")
    with ground.field(fleet_of(1, tools=MANY_TOOLS), but=(RELAY,)) as entrants:
        for entrant in plan.turns(entrants):
            with entrant.excused(f"listing of {MANY_TOOLS} tools"):
                listings = partial(_p50, entrant, "listings", times=plan.listings)
                whole.add(entrant.name, plan.calm.take(listings))
            if entrant.name in LIST_NEWS:
                differences = partial(_p50, entrant, "differences", times=plan.listings)
                news.add(entrant.name, plan.calm.take(differences))
    return [
        Figure(f"list {MANY_TOOLS} tools p50", "seconds", whole.medians, whole.between),
        Figure(
            "list again with since (floor: in full)", "seconds", news.medians | {FLOOR: whole.medians[FLOOR]}
        ),
    ]


def flat(ground: Ground, plan: Plan) -> list[Figure]:
    """One call at a time on larger and larger fleets: the cost should not grow."""
    fleets = {
        **{f"sequential p50, {count} servers": fleet_of(count) for count in (1, *plan.fleets)},
        **{f"sequential p50, {count} tools": fleet_of(1, tools=count) for count in (10, 250, 2500)},
    }
    middle, champion = Rounds(), ground.champion
    echoes = {"tool": ECHO, "arguments": ECHO_ARGUMENTS, "times": plan.calls // 2}
    if champion is None:
        return []
    ground.peers_lack("sequential p50 by servers and tools", "it compares the daemon with itself")
    with ExitStack() as stack:
        entrants = {FLOOR: stack.enter_context(ground.enter(FLOOR, fleet_of(1)))}
        for name, fleet in fleets.items():
            entrants[name] = stack.enter_context(ground.enter(champion, fleet))
        for _ in plan.rounds_of(plan.rounds):
            for name, entrant in entrants.items():
                plan.warm(entrant)
                middle.add(name, plan.calm.take(partial(_p50, entrant, "in_turn", **echoes)))
    medians = middle.medians
    return [Figure(name, "seconds", {FLOOR: medians[FLOOR], champion: medians[name]}) for name in fleets]
