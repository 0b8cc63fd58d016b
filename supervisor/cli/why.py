"""`why`: one server explained in one screen: how it is, what to do about it, and what that rests on."""

import itertools
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from supervisor.cli.grammar import Options, Parser, Verb
from supervisor.cli.render import coloured, duration, fit, paint, relative, screen_height, screen_width, wrap
from supervisor.cli.status import STATE_COLOURS
from supervisor.core.printable import one_line
from supervisor.errors import DONE
from supervisor.surfaces.client import SyncClient

LABEL = 11
"""Cells that a label takes."""
FEWEST_LINES = 5
"""Of stderr, however small the screen."""

Why = Mapping[str, Any]


def _declare(parser: Parser) -> None:
    parser.add_argument("server", metavar="SERVER", help="name of the server, as `status` lists it")


def show_why(options: Options) -> int:
    """Print the explanation."""
    with SyncClient(options.socket) as client:
        why = client.request("servers/why", {"server": options.server})
    if options.json:
        print(json.dumps(why, indent=2))
        return DONE
    size = {"width": screen_width(), "height": screen_height()}
    for line in lines(why, now=time.time(), **size, colour=coloured()):
        print(line)
    return DONE


def lines(why: Why, *, now: float, width: int, height: int, colour: bool) -> list[str]:
    """State and reason, suggestions, then facts; stderr takes what the screen has left."""
    told = [
        *_headline(why, now, width, colour=colour),
        *_suggestions(why["suggestions"], width),
        "",
        *(line for label, text in _facts(why, now) for line in _labelled(label, text, width)),
    ]
    room = max(height - len(told) - 3, FEWEST_LINES)
    return [*told, *_quoted("stdout", why["noise"]["samples"], width), *_stderr(why["stderr"], room, width)]


def _headline(why: Why, now: float, width: int, *, colour: bool) -> Iterator[str]:
    state = paint(why["state"], STATE_COLOURS.get(why["state"]) if colour else None)
    name = one_line(why["server"])
    yield f"{name}: {state} for {duration(now - why['since'])}"
    yield from _wrapped(why["reason"], width)


def _suggestions(suggestions: Sequence[Mapping[str, str]], width: int) -> Iterator[str]:
    for suggestion in suggestions:
        yield ""
        yield from _wrapped(suggestion["cause"], width, first="* ")
        yield from _wrapped(suggestion["fix"], width, first="  -> ")


def _facts(why: Why, now: float) -> Iterator[tuple[str, str]]:
    """What is known, as labels and texts; a text that is empty is not shown."""
    yield from (("problem", problem) for problem in why["problems"])
    if why["launch"] is not None:
        yield from _launch(why["launch"])
    yield "missing", ", ".join(why["missingVariables"])
    yield "config", why["source"]
    agreed = f", protocol {why['protocol']}" if why["protocol"] else ""
    yield "transport", why["transport"] + agreed
    yield "last start", ", ".join(f"{moment['what']} +{moment['offset']:.2f} s" for moment in why["timeline"])
    for times, end in _repeated(why["ends"]):
        again = f"{times} x " if times > 1 else ""
        yield "ended", f"{again}{end['reason']} ({relative(end['at'] - now)})"
    if why["nextTry"] is not None:
        yield "next try", relative(why["nextTry"] - now)
    if why["noise"]["count"]:
        yield "noise", f"{why['noise']['count']} lines on stdout that were not MCP"


def _launch(launch: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "command", " ".join((launch["command"], *launch["args"]))
    yield "runs", launch["executable"] or "nothing: no such program was found"
    yield "in", launch["cwd"] or ""
    if launch["executable"] is None:
        searched = (f"{each['directory']}{'' if each['exists'] else ' (absent)'}" for each in launch["path"])
        yield "PATH", ", ".join(searched)
    yield "variables", ", ".join(launch["environment"])


def _repeated(ends: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Ends for the same reason as one, with their number; the latest first."""
    for _, alike in itertools.groupby(reversed(ends), key=lambda end: end["reason"]):
        same = list(alike)
        yield len(same), same[0]


def _labelled(label: str, text: str, width: int) -> list[str]:
    return _wrapped(text, width, first=f"{label:{LABEL}}", rest=" " * LABEL) if text else []


def _wrapped(text: str, width: int, *, first: str = "", rest: str | None = None) -> list[str]:
    return wrap(one_line(text), width, first=first, rest=" " * len(first) if rest is None else rest)


def _stderr(said: Sequence[Mapping[str, Any]], room: int, width: int) -> list[str]:
    return _quoted("stderr", [line["text"] for line in said[-room:]], width)


def _quoted(stream: str, texts: Sequence[str], width: int) -> list[str]:
    return ["", f"{stream}:", *(fit(f"  | {one_line(text)}", width) for text in texts)] if texts else []


WHY = Verb(
    "why",
    "explain why a server is as it is, and what to do about it",
    """\
  mcp-supervisor why github
  mcp-supervisor why github --json | jq -r '.suggestions[0].fix'
""",
    show_why,
    _declare,
)
