"""What could stand where the cursor is: for the shells that complete this command.

The grammar says what is awaited; names come from the daemon, if it answers at once. Nothing here fails:
who completes a word wants no error.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from supervisor.cli.grammar import Parser
from supervisor.cli.importing import PROGRAMS
from supervisor.cli.values import mapping
from supervisor.errors import DONE, SupervisorError
from supervisor.surfaces.client import SyncClient

AT_ONCE = 1.0
"""Seconds; nobody waits longer for a completion."""

Words = Sequence[str]


def print_candidates(parser: Parser, verbs: Mapping[str, Parser], words: Words) -> int:
    """Print what the last of `words` could become, one on a line."""
    *before, begun = words or [""]
    for candidate in sorted(set(candidates(parser, verbs, before, begun))):
        # A name with a line break could not be told from two.
        if candidate.startswith(begun) and candidate.isprintable():
            print(candidate)
    return DONE


def candidates(parser: Parser, verbs: Mapping[str, Parser], before: Words, begun: str) -> Iterable[str]:
    """All that may follow `before`; those that fit `begun` are for the caller to choose."""
    at = parser.verb_position(before)
    if at is None:
        awaited = parser.flag_with_value(before[-1]) if before else None
        return [*verbs, *parser.flags()] if awaited is None else _files(begun)
    verb = verbs.get(before[at])
    if verb is None:
        return ()
    given = before[at + 1 :]
    awaited = verb.awaited(given)
    if begun.startswith("-") and not (given and verb.flag_with_value(given[-1])):
        return verb.flags()
    if awaited is None:
        return ()
    if awaited.choices is not None:
        return map(str, awaited.choices)
    return _named(str(awaited.metavar), begun, before, given)


def _named(what: str, begun: str, before: Words, given: Words) -> Iterable[str]:
    """The things that a word in the help stands for."""
    if what in ("PATH", "FILE"):
        return _files(begun)
    if what == "SOURCE":
        return [*PROGRAMS, *_files(begun)]
    if what == "ARGUMENT":
        return _ask(before, lambda client: _argument_names(client, given))
    sources: Mapping[str, Callable[[SyncClient], Iterable[str]]] = {
        "SERVER": _servers,
        "TOOL": _tools,
        "PATTERN": _tools,
        "AGENT": _agents,
    }
    return _ask(before, sources[what]) if what in sources else ()


def _ask(before: Words, question: Callable[[SyncClient], Iterable[str]]) -> Iterable[str]:
    """What the daemon says, the one that the words name; nothing when it does not."""
    chosen = [after for word, after in itertools.pairwise(before) if word == "--socket"]
    with suppress(SupervisorError), SyncClient(next(iter(chosen), None), connect_timeout=AT_ONCE) as client:
        return list(question(client))
    return ()


def _servers(client: SyncClient) -> Iterable[str]:
    return (server["name"] for server in client.request("servers/list", timeout=AT_ONCE)["servers"])


def _tools(client: SyncClient) -> Iterable[str]:
    return (tool["name"] for tool in client.request("tools/list", timeout=AT_ONCE)["tools"])


def _agents(client: SyncClient) -> Iterable[str]:
    return (agent["name"] for agent in client.request("agents/list", timeout=AT_ONCE)["agents"])


def _argument_names(client: SyncClient, given: Words) -> Iterable[str]:
    """`key=` for each argument that the tool takes and that is not given yet."""
    tool = client.request("tools/get", {"name": given[0]}, timeout=AT_ONCE)["tool"]
    used = {word.partition("=")[0].removesuffix(":") for word in given[1:]}
    properties = mapping(mapping(tool.get("inputSchema")).get("properties"))
    return (f"{key}=" for key in properties if key not in used)


def _files(begun: str) -> Iterable[str]:
    """The files that could be meant, directories with a slash."""
    from pathlib import Path

    directory, slash, _ = begun.rpartition("/")
    with suppress(OSError):
        for entry in Path(f"{directory}{slash}" or ".").expanduser().iterdir():
            yield f"{directory}{slash}{entry.name}{'/' if entry.is_dir() else ''}"
