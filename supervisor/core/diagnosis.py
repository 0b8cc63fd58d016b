"""Why a server is as it is, and what to do about it: from facts to suggestions, the most likely first.

What stands in the entry and on the disk is certain and comes first; why a run failed is `failures`'s. Nothing
here looks anything up: the facts are gathered by the caller.
"""

import itertools
import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import assert_never

from supervisor.core.clues import clues, quoted
from supervisor.core.facts import Absent, Facts, Found, NoDirectory, NoInterpreter, NotExecutable
from supervisor.core.failures import Rule, asked, counted, failures, may_download, noise
from supervisor.core.phases import (
    Backoff,
    Idle,
    Killing,
    Ready,
    Starting,
    Stopped,
    Stopping,
    Unavailable,
)
from supervisor.core.problems import listed
from supervisor.core.suggestion import Kind, Suggestion

__all__ = ["Facts", "Kind", "Suggestion", "diagnose"]

_PRODUCTS = {
    **dict.fromkeys(("node", "npm", "npx"), "Node.js"),
    **dict.fromkeys(("uv", "uvx"), "uv"),
    **dict.fromkeys(("bun", "bunx"), "Bun"),
    **dict.fromkeys(("python", "python3"), "Python"),
}
"""What to install for a command, where that is called otherwise."""


def diagnose(facts: Facts) -> tuple[Suggestion, ...]:
    """Likely causes with a fix each, the most likely first; at least one, at most one of a kind."""
    found: dict[Kind, Suggestion] = {}
    for suggestion in _suggestions(facts):
        found.setdefault(suggestion.kind, suggestion)
    return tuple(found.values())


def _suggestions(facts: Facts) -> Iterator[Suggestion]:
    return itertools.chain(asked((_behind,), facts), _of_phase(facts))


def _of_phase(facts: Facts) -> Iterator[Suggestion]:
    match facts.phase:
        case Ready():
            return asked((_offer, noise, _left_out), facts)
        case Stopped():
            return asked((_stopped, *_OBSTACLES), facts)
        case Idle():
            return asked((_idle, *_OBSTACLES), facts)
        case Stopping() | Killing():
            return asked((_stopping,), facts)
        case Starting():
            return itertools.chain(
                asked((_starting, *_OBSTACLES), facts), clues(facts.words, remote=facts.remote)
            )
        case Backoff() | Unavailable():
            obstacles = tuple(asked(_OBSTACLES, facts))
            return iter(obstacles) if obstacles else failures(facts)
    assert_never(facts.phase)


def _behind(facts: Facts) -> Suggestion | None:
    if facts.behind is None:
        return None
    fix = "Correct its entry, or what it starts; `mcp-supervisor check` shows what is wrong in the file."
    return Suggestion(Kind.BEHIND, f"It is not as its entry says now: {facts.behind}.", fix)


# What stands in the way of every start.


def _bad_config(facts: Facts) -> Suggestion | None:
    if not facts.problems:
        return None
    cause = f"Its entry is wrong: {'; '.join(facts.problems)}."
    return Suggestion(Kind.BAD_CONFIG, cause, "Correct the entry; `mcp-supervisor check` shows what is left.")


def _missing_reference(facts: Facts) -> Suggestion | None:
    if facts.trouble is None:
        return None
    if not facts.missing:
        cause = f"Its entry refers to something that cannot be had: {facts.trouble}."
        return Suggestion(Kind.MISSING_REFERENCE, cause, "Create what is named, or correct the reference.")
    names = listed(facts.missing, joint="and")
    return Suggestion(
        Kind.MISSING_VARIABLE,
        f"The daemon's environment lacks {names}, which its entry refers to.",
        f"Set {names} for the daemon (Environment= or EnvironmentFile= of its unit; it does not read your "
        f"shell's files), or write a default, as in ${{{facts.missing[0]}:-value}}.",
    )


def _command(facts: Facts) -> Suggestion | None:
    match facts.lookup:
        case None | Found():
            return None
        case Absent(name=name):
            return _absent(name)
        case NotExecutable(path=path):
            fix = f"Run `chmod +x {path}`, or name its interpreter in command and the file first in args."
            return Suggestion(Kind.NOT_EXECUTABLE, f"{path} is there and is not executable.", fix)
        case NoInterpreter(path=path, interpreter=interpreter):
            cause = f"{path} is a script for {interpreter}, which is not there."
            fix = f"{_installation(interpreter)}, or correct the first line of the script."
            return Suggestion(Kind.BAD_INTERPRETER, cause, fix)
        case NoDirectory(path=path):
            cause = f"Its working directory {path} does not exist."
            return Suggestion(Kind.NO_DIRECTORY, cause, "Create the directory, or correct cwd in its entry.")
    assert_never(facts.lookup)


def _absent(name: str) -> Suggestion:
    if re.search(r"\s", name):
        cause = f"It looks like command holds arguments: there is no file with the whole name {quoted(name)}."
        fix = "Write the program alone in command, and each further word as an element of args."
        return Suggestion(Kind.ARGUMENTS_IN_COMMAND, cause, fix)
    if "/" in name:
        cause = f"There is no file {name}, or the daemon's user may not see it."
        return Suggestion(Kind.NOT_FOUND, cause, "Install it there, or correct the path in command.")
    cause = f"{name} is nowhere on the PATH that the server gets; the daemon's PATH is not your shell's."
    fix = (
        f"{_installation(name)}, or write the full path that `command -v {name}` prints in your shell, "
        "or set PATH in env of its entry."
    )
    return Suggestion(Kind.NOT_FOUND, cause, fix)


def _installation(program: str) -> str:
    return f"Install {_PRODUCTS.get(PurePosixPath(program).name, program)} for the daemon's user"


_OBSTACLES: tuple[Rule, ...] = (_bad_config, _missing_reference, _command)


# When nothing has failed.


def _stopped(facts: Facts) -> Suggestion:
    if facts.enabled:
        fix = f"Run `mcp-supervisor start {facts.server}`."
        return Suggestion(Kind.STOPPED, f"It is stopped, and nothing will start it: {facts.reason}.", fix)
    fix = f"Run `mcp-supervisor enable {facts.server}`, or set enabled to true in its entry."
    return Suggestion(Kind.DISABLED, "It is disabled, so it is not started.", fix)


def _idle(facts: Facts) -> Suggestion:
    nothing = "Nothing to do; " if facts.behind is None else ""
    fix = f"{nothing}`mcp-supervisor restart {facts.server}` starts it now."
    return Suggestion(Kind.IDLE, "It sleeps until somebody calls one of its tools.", fix)


def _stopping(facts: Facts) -> Suggestion:
    cause = f"It is being stopped: {facts.reason}."
    return Suggestion(Kind.STOPPING, cause, "Wait: after stopGrace it is killed.")


def _starting(facts: Facts) -> Suggestion:
    before = f"; its run before that: {facts.ends[-1].reason}" if facts.ends else ""
    download = ", and a first start may have to download its package" if may_download(facts) else ""
    fix = f"Wait: it has {facts.start_timeout:g} s (startTimeout){download}."
    return Suggestion(Kind.STARTING, f"It is starting{before}.", fix)


def _offer(facts: Facts) -> Suggestion | None:
    policy, patterns = facts.left_out.get("policy", 0), facts.left_out.get("filter", 0)
    if facts.tools:
        if facts.behind is not None:
            return None
        cause = f"It is connected and offers {counted(facts.tools, 'tool')}."
        return Suggestion(Kind.FINE, cause, "Nothing to do.")
    if policy:
        cause = f"It is connected, but the policy refuses what it has ({counted(policy, 'tool')})."
        fix = 'Set "policy" in the supervisor settings to "confirm" (calls need a yes) or "open" (no guard).'
        return Suggestion(Kind.REFUSED_BY_POLICY, cause, fix)
    if patterns:
        cause = (
            f"It is connected, but the patterns in its entry hide what it has ({counted(patterns, 'tool')})."
        )
        return Suggestion(Kind.FILTERED, cause, "Correct tools in its entry: the last match wins.")
    if facts.left_out:
        return None
    fix = "See whether it needs arguments or credentials to have any; prompts and resources are not relayed."
    return Suggestion(Kind.NO_TOOLS, "It is connected and lists no tools.", fix)


def _left_out(facts: Facts) -> Suggestion | None:
    bad, taken = facts.left_out.get("definition", 0), facts.left_out.get("collision", 0)
    if not bad + taken:
        return None
    counts = ((bad, "with a bad definition"), (taken, "under a name that is taken"))
    cause = f"Not all of its tools are offered: {', '.join(f'{n} {what}' for n, what in counts if n)}."
    fix = f"`mcp-supervisor tools --all --server {facts.server}` says what is wrong with each."
    return Suggestion(Kind.LEFT_OUT, cause, fix)
