"""`why`: one server explained in one screen: how it is, what to do about it, and what that rests on."""

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from supervisor.cli.blocks import Block, arranged
from supervisor.cli.detail import repeated
from supervisor.cli.grammar import Options, Parser, Verb
from supervisor.cli.render import coloured, duration, fit, paint, relative, screen_height, screen_width, wrap
from supervisor.cli.status import STATE_COLOURS
from supervisor.core.printable import one_line
from supervisor.errors import DONE
from supervisor.surfaces.client import SyncClient

LABEL = 11
"""Cells that a label takes."""
RANKS = {
    "runs": (3, 1),
    "ended": (3, 1),
    "command": (4, 1),
    "noise": (4, 1),
    "in": (5, 1),
    "PATH": (5, 1),
    "last start": (5, 1),
    "config": (7, 1),
    "transport": (8, 1),
    "variables": (9, 1),
}
"""How soon a fact gets its lines, and the fewest; one that is not here comes right after the likely cause."""
EARLIER_ENDS = (8, 1)

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
    # The prompt that follows takes a line too; what is no terminal takes all of it.
    height = screen_height() - 1 if sys.stdout.isatty() else None
    for line in lines(why, now=time.time(), width=screen_width(), height=height, colour=coloured()):
        print(line)
    return DONE


def lines(why: Why, *, now: float, width: int, height: int | None, colour: bool) -> list[str]:
    """State and reason, suggestions, facts, last words: all, or what a screen of that height has room for."""
    said = [line["text"] for line in why["stderr"]]
    blocks = [
        Block(list(_headline(why, now, width, colour=colour)), least=2),
        *_suggestions(why["suggestions"], width),
        Block([""]),
        *_fact_blocks(why, now, width),
        _quoted("stdout", why["noise"]["samples"], width, rank=7),
        _quoted("stderr", said, width, rank=5),
    ]
    return arranged(blocks, height=height, width=width)


def _headline(why: Why, now: float, width: int, *, colour: bool) -> Iterator[str]:
    state = paint(why["state"], STATE_COLOURS.get(why["state"]) if colour else None)
    name = one_line(why["server"])
    yield f"{name}: {state} for {duration(now - why['since'])}"
    yield from _wrapped(why["reason"], width)


def _suggestions(suggestions: Sequence[Mapping[str, str]], width: int) -> Iterator[Block]:
    """The most likely cause before anything else; a further one whole, or not at all."""
    for place, suggestion in enumerate(suggestions):
        cause = _wrapped(suggestion["cause"], width, first="* ")
        told = ["", *cause, *_wrapped(suggestion["fix"], width, first="  -> ")]
        yield Block(told, rank=6 if place else 1, least=len(told))


def _fact_blocks(why: Why, now: float, width: int) -> Iterator[Block]:
    seen: set[str] = set()
    for label, text in _facts(why, now):
        if text:
            rank, least = EARLIER_ENDS if label == "ended" and label in seen else RANKS.get(label, (2, 1))
            yield Block(_wrapped(text, width, first=f"{label:{LABEL}}", rest=" " * LABEL), rank, least)
            seen.add(label)


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
    for times, end in repeated(why["ends"]):
        again = f"{times} x " if times > 1 else ""
        reason = "as said above" if end["reason"] == why["reason"] else end["reason"]
        yield "ended", f"{again}{reason} ({relative(end['at'] - now)})"
    if why["nextTry"] is not None:
        yield "next try", relative(why["nextTry"] - now)
    if why["noise"]["count"]:
        count = why["noise"]["count"]
        yield "noise", f"{count} {'line' if count == 1 else 'lines'} on stdout, not MCP"


def _launch(launch: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "command", " ".join((launch["command"], *launch["args"]))
    # Where nothing could be filled in, nothing was looked for either.
    lost = (
        "nothing: no such program was found" if launch["path"] else "unknown: its entry cannot be filled in"
    )
    yield "runs", launch["executable"] or lost
    yield "in", launch["cwd"] or ""
    if launch["executable"] is None and "/" not in launch["command"]:
        searched = (f"{each['directory']}{'' if each['exists'] else ' (absent)'}" for each in launch["path"])
        yield "PATH", ", ".join(searched)
    yield "variables", ", ".join(launch["environment"])


def _wrapped(text: str, width: int, *, first: str = "", rest: str | None = None) -> list[str]:
    return wrap(one_line(text), width, first=first, rest=" " * len(first) if rest is None else rest)


def _quoted(stream: str, texts: Sequence[str], width: int, *, rank: int) -> Block:
    """What was said there, of which the last lines count."""
    told = ["", f"{stream}:", *(fit(f"  | {one_line(text)}", width) for text in texts)] if texts else []
    return Block(told, rank, least=5, title=2)


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
