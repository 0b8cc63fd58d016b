"""Why a run failed: from facts to suggestions, the most certain first.

What we saw ourselves comes before what the server's words look like (`clues`), and that before the bare way
in which it ended. A rule looks at the facts and answers with a suggestion or with None.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePosixPath

from supervisor.core.clues import clues, download, quoted
from supervisor.core.eras import LATEST_HANDSHAKE, MODERN
from supervisor.core.facts import FAULTS, SIGKILL, Facts, RunEnd
from supervisor.core.problems import listed
from supervisor.core.suggestion import Kind, Suggestion

Rule = Callable[[Facts], Suggestion | None]

_FETCHERS = frozenset(
    {"bun", "bunx", "deno", "docker", "npm", "npx", "pipx", "pnpm", "podman", "uv", "uvx", "yarn"}
)
"""Programs that may download what they are to run before they run it."""

_CANNOT_RUN = (126, 127)
"""How a shell, env or setpriv says that it could not start what it was given."""
_LIMITS = re.compile(r"cannot start: (?:Too many|Resource temporarily|Cannot allocate)")
_PROTOCOL = re.compile(r"refused the handshake|speaks only|wants protocol|protocol is set to|greeting cannot")
_LISTING = re.compile(r"tool list|list its tools|lists more than")
_BROKEN_PIPES = {
    "maxLineBytes": "Raise maxLineBytes in the supervisor settings, or have the server answer with less.",
    "closed its standard": "Let the program stay in the foreground with its standard streams open.",
}


def failures(facts: Facts) -> Iterator[Suggestion]:
    """What may have ended the last run; at least one suggestion."""
    words, ending = tuple(clues(facts.words, remote=facts.remote)), tuple(asked(_ENDING, facts))
    # What a server said in a long life explains its end less than what it said on the way to a failed start.
    rest = (*ending, *words) if facts.served else (*words, *ending)
    return iter((*asked(_SEEN, facts), *rest) or (_unknown(facts),))


def asked(rules: Iterable[Rule], facts: Facts) -> Iterator[Suggestion]:
    """What the rules answer, in their order."""
    return (suggestion for rule in rules if (suggestion := rule(facts)) is not None)


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def may_download(facts: Facts) -> bool:
    """Whether the command is one that fetches a package before it runs it."""
    words = (word for argument in facts.argv for word in argument.split())
    return any(PurePosixPath(word).name in _FETCHERS for word in words)


# What we saw ourselves.


def _mended(facts: Facts) -> Suggestion | None:
    if not facts.reason.startswith(("cannot find", "cannot execute", "cannot start in")):
        return None
    cause = f"At its last start: {facts.reason}. What was missing is there now."
    return Suggestion(Kind.NOT_FOUND, cause, f"Run `mcp-supervisor restart {facts.server}`.")


def _refused_by_system(facts: Facts) -> Suggestion | None:
    if not _LIMITS.match(facts.reason):
        return None
    cause = f"The system could not start it: {facts.reason.removeprefix('cannot start: ')}."
    fix = "Raise the daemon's limits (LimitNOFILE=, TasksMax=, MemoryMax= of its unit), or free something."
    return Suggestion(Kind.REFUSED_BY_SYSTEM, cause, fix)


def _echo(facts: Facts) -> Suggestion | None:
    if "sends back what it is sent" not in facts.reason:
        return None
    cause = "The program repeats its input, as cat and shells do, so it is not an MCP server."
    return Suggestion(Kind.ECHO, cause, "Name an MCP server in command, with the arguments that make it one.")


def _protocol(facts: Facts) -> Suggestion | None:
    if not _PROTOCOL.search(facts.reason):
        return None
    cause = f"No protocol version could be agreed on: {facts.reason}."
    if facts.protocol == "auto":
        known = f'"{LATEST_HANDSHAKE}" or "{MODERN}"'
        fix = f"Set protocol in its entry to {known}, whichever the server knows, or update the server."
    else:
        fix = f'Remove "protocol": "{facts.protocol}" from its entry, so that the version is negotiated.'
    return Suggestion(Kind.PROTOCOL, cause, fix)


def _broken_listing(facts: Facts) -> Suggestion | None:
    if not _LISTING.search(facts.reason):
        return None
    fix = "Update the server, or tell its authors: its answer to tools/list has to change."
    return Suggestion(Kind.BROKEN_LISTING, f"It answers, but not with its tools: {facts.reason}.", fix)


def _broken_pipe(facts: Facts) -> Suggestion | None:
    fix = next((fix for words, fix in _BROKEN_PIPES.items() if words in facts.reason), None)
    if fix is None:
        return None
    return Suggestion(Kind.BROKEN_PIPE, f"It could not be listened to any longer: {facts.reason}.", fix)


def _unhealthy(facts: Facts) -> Suggestion | None:
    if not facts.reason.startswith("unhealthy: "):
        return None
    what = facts.reason.removeprefix("unhealthy: ").partition("; ")[0]
    cause = f"It ran, but it {what}, so it was given up."
    fix = f"Read `mcp-supervisor logs {facts.server}`; if it is only slow, raise healthInterval in its entry."
    return Suggestion(Kind.UNHEALTHY, cause, fix)


def _framing(facts: Facts) -> Suggestion | None:
    if "broke the framing" in facts.reason:
        cause = f"It does not send the headers that its framing asks for: {facts.reason}."
    elif facts.timed_out and facts.framing == "content-length" and not facts.greeted:
        cause = "It looks like it does not know the Content-Length headers that its framing asks for."
    else:
        return None
    return Suggestion(
        Kind.FRAMING, cause, 'Remove "framing" from its entry: most servers end a message with a newline.'
    )


def _slow_download(facts: Facts) -> Suggestion | None:
    line = download(facts.stderr)
    return _too_slow(facts, f": {quoted(line)}") if facts.timed_out and line is not None else None


def _too_slow(facts: Facts, evidence: str) -> Suggestion:
    return Suggestion(
        Kind.SLOW_DOWNLOAD,
        f"It looks like its package was still being downloaded after {facts.start_timeout:g} s{evidence}.",
        f"Raise startTimeout in its entry (it is {facts.start_timeout:g}), or fetch the package beforehand: "
        "run the command once as the daemon's user.",
    )


def _killed(facts: Facts) -> Suggestion | None:
    end = facts.own_end
    if end is None or end.died_of is None or end.died_of in FAULTS:
        return None
    if end.died_of != SIGKILL:
        cause = f"{_ended(end)}; the supervisor did not send signal {end.died_of}."
        return Suggestion(Kind.KILLED, cause, f"Find out who did; {_restarting(facts, end)}")
    return Suggestion(
        Kind.KILLED,
        f"{_ended(end)}; signal 9 comes from the kernel when memory runs out, or from somebody's kill -9.",
        f"Look for the first with `journalctl -k -g 'out of memory'`, and give it more; "
        f"{_restarting(facts, end)}",
    )


def _ended(end: RunEnd) -> str:
    return f"It was {end.reason}" if end.reason.startswith("killed") else f"It {end.reason}"


def _restarting(facts: Facts, end: RunEnd) -> str:
    if facts.restart == "always" or (facts.restart == "on-failure" and end.code != 0):
        return "restarts are on for it."
    wanted = "always" if end.code == 0 else "on-failure"
    return f'run `mcp-supervisor start {facts.server}`, or set "restart": "{wanted}" to have that done.'


_SEEN: tuple[Rule, ...] = (
    _mended,
    _refused_by_system,
    _echo,
    _protocol,
    _broken_listing,
    _broken_pipe,
    _unhealthy,
    _framing,
    _slow_download,
    _killed,
)


# How it ended, when nothing more exact is known.


def _bad_interpreter(facts: Facts) -> Suggestion | None:
    end = facts.own_end
    by_code = end is not None and end.code in _CANNOT_RUN
    if not by_code and not facts.reason.startswith("cannot start: No such file"):
        return None
    return Suggestion(
        Kind.BAD_INTERPRETER,
        f"It looks like the command, or the interpreter in its first line, could not be run: "
        f"{facts.reason}{_last_words(facts)}.",
        "Check its `#!` line (a Windows line ending spoils it too), and that PATH has what the line names.",
    )


def _talks_instead(facts: Facts) -> Suggestion | None:
    end = facts.own_end
    gave_up = facts.timed_out or (end is not None and end.code == 0)
    return noise(facts) if gave_up and not facts.greeted else None


def noise(facts: Facts) -> Suggestion | None:
    if not facts.noise:
        return None
    sample = f", such as {quoted(facts.samples[-1])}" if facts.samples else ""
    cause = f"It writes to stdout what is not MCP ({counted(facts.noise, 'line')}{sample})."
    if any(line.lower().startswith("content-length:") for line in facts.samples):
        return Suggestion(Kind.NOISE, cause, 'Set "framing" to "content-length" in its entry.')
    fix = "Have it log to stderr (often an option or a variable), or give it the argument that selects stdio."
    return Suggestion(Kind.NOISE, cause, fix)


def _no_answer(facts: Facts) -> Suggestion | None:
    if not facts.timed_out:
        return None
    if may_download(facts) and "heard" not in facts.reached:
        return _too_slow(facts, ", as it had said nothing")
    cause = f"It runs, but did not finish its start within {facts.start_timeout:g} s{_last_words(facts)}."
    if facts.remote:
        fix = "Check that its url is where it speaks MCP; if it is only slow, raise startTimeout."
        return Suggestion(Kind.NO_ANSWER, f"It did not answer within {facts.start_timeout:g} s.", fix)
    fix = "Give it the argument that makes it an MCP server on stdio; if it is only slow, raise startTimeout."
    return Suggestion(Kind.NO_ANSWER, cause, fix)


def _crash_loop(facts: Facts) -> Suggestion | None:
    if "crash loop" not in facts.reason:
        return None
    cause = f"It failed too often in too short a time, so it is not tried again: {facts.reason}."
    fix = f"Mend what makes it fail, then run `mcp-supervisor restart {facts.server}`."
    return Suggestion(Kind.CRASH_LOOP, cause, fix)


def _crashed(facts: Facts) -> Suggestion | None:
    end = facts.own_end
    if end is None or end.died_of not in FAULTS:
        return None
    cause = f"{_ended(end)}: a fault in the program itself{_last_words(facts)}."
    fix = "Update it, and what runs it; if it goes on, tell its authors, with `coredumpctl info`."
    return Suggestion(Kind.CRASHED, cause, fix)


def _exited(facts: Facts) -> Suggestion | None:
    end = facts.own_end
    if end is None or end.code is None:
        return None
    if facts.served:
        cause = f"It was connected, then {end.reason}{_last_words(facts)}."
        fix = f"Read `mcp-supervisor logs {facts.server}`; {_restarting(facts, end)}"
        return Suggestion(Kind.ENDED_IN_SERVICE, cause, fix)
    after = "" if end.lived is None else f" after {end.lived:.1f} s"
    cause = f"{_ended(end)}{after}, before it was ready{_last_words(facts)}."
    if end.code == 0:
        fix = "Give it the arguments that make it a server, one that stays until stdin closes."
        return Suggestion(Kind.EXITED_CLEANLY, cause, fix)
    fix = f"Read `mcp-supervisor logs {facts.server}`, or run the command by hand as the daemon's user."
    return Suggestion(Kind.EXITED, cause, fix)


def _last_words(facts: Facts) -> str:
    line = facts.last_line
    return ", and stderr is empty" if line is None else f"; its last line on stderr: {quoted(line)}"


def _not_inherited(facts: Facts) -> Suggestion | None:
    if not facts.not_inherited:
        return None
    names = listed(facts.not_inherited, joint="and")
    cause = f"It does not get {names}: inheritEnv names what the daemon's environment lacks."
    fix = f"Set {names} for the daemon, or give a value in env of its entry."
    return Suggestion(Kind.NOT_INHERITED, cause, fix)


_ENDING: tuple[Rule, ...] = (
    _bad_interpreter,
    _talks_instead,
    _no_answer,
    _crash_loop,
    _crashed,
    _exited,
    noise,
    _not_inherited,
)


def _unknown(facts: Facts) -> Suggestion:
    fix = f"Read `mcp-supervisor logs {facts.server}`, then try `mcp-supervisor restart {facts.server}`."
    return Suggestion(Kind.UNKNOWN, f"No usual cause fits; what is known: {facts.reason}.", fix)
