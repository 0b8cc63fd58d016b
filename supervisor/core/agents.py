"""Agents: named lists of patterns on public tool names, and what a request may therefore see and call.

`selection` is the one decision that filters listings and refuses calls. Where agents are written down is
the business of `layers` (the configuration) and `frontmatter` (AGENTS.md); which tools exist, of the catalog.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

from supervisor.core.globs import matches
from supervisor.core.naming import MAX_LENGTH
from supervisor.core.problems import Notice, Problem
from supervisor.errors import InvalidParams, Outcome

MAX_PATTERNS = 512
"""How many patterns a request may bring along."""
MAX_GLOBS = 64
"""How many of them may hold a star: each is tried on each name, while everybody else waits."""
MAX_PATTERN_LENGTH = 256
"""How long each may be; a public name has at most a quarter of that."""

_REMEMBERED_LISTS = 64
_REMEMBERED_NAMES = 4096

Allowed = Callable[[str], bool]


class Agent(Struct, frozen=True):
    """A named list of patterns."""

    name: str
    patterns: tuple[str, ...]
    """Scanned left to right, `!` denies, the last match wins, no match means no."""
    source: str
    """The file that describes it."""


class FrontMatter(Struct, frozen=True):
    """What the file beside the configuration contributes."""

    agents: Mapping[str, Agent]
    problems: tuple[Problem, ...] = ()
    notices: tuple[Notice, ...] = ()


def check_pattern(pattern: str) -> None:
    """Accept what can match a name.

    Raises:
        ValueError: It cannot match anything.
    """
    if not pattern.removeprefix("!").strip():
        raise ValueError("must be a name or a pattern such as files_*, with ! in front to deny")


def find(agents: Mapping[str, Agent], name: str) -> Agent:
    """The agent of that name.

    Raises:
        InvalidParams: There is none.
    """
    agent = agents.get(name)
    if agent is None:
        known = ", ".join(sorted(agents)) or "none"
        raise InvalidParams(f"cannot find agent {name!r}; known agents: {known}", outcome=Outcome.REJECTED)
    return agent


def selection(agents: Mapping[str, Agent], agent: str | None, tools: Sequence[str] | None) -> Allowed | None:
    """Which public names a request may see and call; None is all of them.

    Args:
        agents: All agents, by name.
        agent: The agent that the request names.
        tools: The patterns that the request brings along; where both are given, both must allow.

    Raises:
        InvalidParams: There is no such agent, or its own patterns cannot be used.
    """
    lists: list[tuple[str, ...]] = []
    if agent is not None:
        lists.append(find(agents, agent).patterns)
    if tools is not None:
        lists.append(_checked(tools))
    # Nothing comes after a final star, so it lets everything through and need not be asked.
    match [_verdicts(patterns) for patterns in lists if patterns[-1:] != ("*",)]:
        case []:
            return None
        case [only]:
            return only
        case verdicts:
            return lambda name: all(allowed(name) for allowed in verdicts)


def _checked(tools: Sequence[str]) -> tuple[str, ...]:
    if len(tools) > MAX_PATTERNS:
        raise _bad_tools(f"tools has more than {MAX_PATTERNS} patterns; name an agent that has them")
    if sum("*" in pattern for pattern in tools) > MAX_GLOBS:
        raise _bad_tools(f"tools has more than {MAX_GLOBS} patterns with a star; name an agent that has them")
    for position, pattern in enumerate(tools):
        if len(pattern) > MAX_PATTERN_LENGTH:
            raise _bad_tools(f"tools[{position}] must have at most {MAX_PATTERN_LENGTH} characters")
        try:
            check_pattern(pattern)
        except ValueError as error:
            raise _bad_tools(f"tools[{position}] {error}") from None
    return tuple(tools)


def _bad_tools(reason: str) -> InvalidParams:
    return InvalidParams(f"cannot accept these params: {reason}", outcome=Outcome.REJECTED)


class _Verdicts:
    """What a list of patterns says about names: the decision of `globs.allows`, made for many names.

    Exact names are looked up, so only globs are tried one by one, and verdicts are remembered.
    """

    __slots__ = ("_exact", "_globs", "_remembered")

    def __init__(self, patterns: Sequence[str]) -> None:
        self._exact: dict[str, int] = {}
        """Where an exact name stands last, counted from 1; negative where it is denied."""
        self._globs: list[tuple[int, str]] = []
        """The same for globs, the last first."""
        self._remembered: dict[str, bool] = {}
        for position, pattern in enumerate(patterns, start=1):
            name = pattern.removeprefix("!")
            rank = -position if pattern.startswith("!") else position
            if "*" in name:
                self._globs.append((rank, name))
            else:
                self._exact[name] = rank
        self._globs.reverse()

    def __call__(self, name: str) -> bool:
        verdict = self._remembered.get(name)
        if verdict is None:
            verdict = self._decide(name)
            self._remember(name, verdict=verdict)
        return verdict

    def _decide(self, name: str) -> bool:
        exact = self._exact.get(name, 0)
        for rank, glob in self._globs:
            if abs(rank) < abs(exact):
                break
            if matches(glob, name):
                return rank > 0
        return exact > 0

    def _remember(self, name: str, *, verdict: bool) -> None:
        # Names come from clients: a longer one is no tool's, and too many are no catalog's.
        if len(name) > MAX_LENGTH:
            return
        if len(self._remembered) >= _REMEMBERED_NAMES:
            self._remembered.clear()
        self._remembered[name] = verdict


@lru_cache(maxsize=_REMEMBERED_LISTS)
def _verdicts(patterns: tuple[str, ...]) -> Allowed:
    return _Verdicts(patterns)


class Names(Struct, frozen=True):
    """The public names of the tools that servers have or had, whether or not they can be called."""

    certain: Collection[str]
    beginnings: tuple[str, ...] = ()
    """How the names of tools begin whose server has not listed any yet: such a one may well be there."""


def unmatched(agents: Mapping[str, Agent], names: Names) -> dict[str, tuple[str, ...]]:
    """For each agent that has any: the exact names in its list, denied ones too, that no tool has.

    A glob is never among them: it may well be meant for tools to come.
    """
    missing = {agent.name: _missing(agent.patterns, names) for agent in agents.values()}
    return {agent: absent for agent, absent in missing.items() if absent}


def _missing(patterns: Sequence[str], names: Names) -> tuple[str, ...]:
    exact = dict.fromkeys(pattern.removeprefix("!") for pattern in patterns if "*" not in pattern)
    return tuple(
        name for name in exact if name not in names.certain and not name.startswith(names.beginnings)
    )
