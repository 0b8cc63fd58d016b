"""All that is known of one server, as `status SERVER` shows it: labels, and lines no wider than the screen.

What this version does not know is shown too, in words as far as its shape allows.
"""

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from supervisor.cli.render import GAP, cells, fit, latency, moment, paint, relative, size, wrap
from supervisor.cli.values import mapping
from supervisor.core.printable import one_line

WIDEST_LABEL = 20
_MEANINGS = {
    "overridden": "by an operator; `--reset` undoes it",
    "remembered": "its tools, as it listed them before this daemon started",
}

Server = Mapping[str, Any]


def server_lines(server: Server, *, now: float, width: int, colours: Mapping[str, str]) -> list[str]:
    """Every fact under its label; what is empty is not shown."""
    facts = {
        f"{fit(one_line(key), WIDEST_LABEL)}:": texts
        for key, value in server.items()
        if (texts := [text for text in _paragraphs(key, value, now) if text.strip()])
    }
    indent = max(map(cells, facts)) + len(GAP)
    lines: list[str] = []
    for label, texts in facts.items():
        start = label + " " * (indent - cells(label))
        for text in texts:
            told = _told(label, text, start, width)
            colour = colours.get(text) if label == "state:" else None
            lines += [line.replace(text, paint(text, colour)) for line in told] if colour else told
            start = " " * indent
    return lines


def _told(label: str, text: str, start: str, width: int) -> list[str]:
    """One text beside its label or below it; what a server wrote is quoted, and cut rather than wrapped."""
    if label == "stderr:":
        return [fit(f"{start}| {text}", width)]
    return wrap(text, width, first=start, rest=" " * cells(start))


def repeated(ends: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Ends for the same reason as one, with their number; the latest first."""
    for _, alike in itertools.groupby(reversed(ends), key=lambda end: end["reason"]):
        same = list(alike)
        yield len(same), same[0]


def _paragraphs(key: str, value: Any, now: float) -> Iterator[str]:
    """What there is to say, each as one line of any length; nothing where there is nothing."""
    if value in (None, "", [], {}):
        return
    match key, value:
        case "stderr", [*texts]:
            yield from (one_line(str(text)) for text in texts)
        case "ends", [{"reason": str(), "at": int() | float()}, *_]:
            for times, end in repeated(value):
                again = f"{times} x " if times > 1 else ""
                yield f"{again}{_end(end['reason'], end['at'], now)}"
        case "leftOut", [{"tool": str(), "reason": str()}, *_]:
            yield from (f"{', '.join(tools)}: {reason}" for reason, tools in _by_reason(value).items())
        case _, [dict(), *_]:
            yield from (_words(each) for each in value)
        case _:
            text = _fact(key, value, now)
            if text:
                yield text


def _by_reason(tools: Sequence[Mapping[str, Any]]) -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = {}
    for tool in tools:
        found.setdefault(one_line(tool["reason"]), []).append(one_line(tool["tool"]))
    return found


def _end(reason: str, at: float, now: float) -> str:
    return f"{one_line(reason)} ({relative(at - now)})"


def _fact(key: str, value: Any, now: float) -> str:
    """The value for a person; empty when there is nothing to say."""
    match key, value:
        case (("overridden" | "remembered"), bool()):
            return _MEANINGS[key] if value else ""
        case "exit", {"reason": str(reason), "at": int() | float() as at}:
            return _end(reason, at, now)
        case "timeline", [[str(), int() | float() as began], *_]:
            return ", ".join(f"{one_line(word)} +{at - began:.2f} s" for word, at in value)
        case (("since" | "nextTry"), int() | float()):
            return f"{moment(value)} ({relative(value - now)})"
        case "serverInfo", {"name": str(name)}:
            more = {word: text for word, text in mapping(value).items() if word not in ("name", "version")}
            version = value.get("version", "")
            return ", ".join(filter(None, [one_line(f"{name} {version}").rstrip(), _words(more)]))
        case "args", [*words]:
            return one_line(" ".join(map(str, words)))
        case _:
            return _figures(key, value)


def _figures(key: str, value: Any) -> str:
    match key, value:
        case "latency", {"p50": int() | float() as p50, "p99": int() | float() as p99}:
            return f"p50 {latency(p50)}, p99 {latency(p99)}"
        case "calls", {}:
            return ", ".join(f"{number} {outcome}" for outcome, number in mapping(value).items())
        case "rss", int():
            return size(value)
        case "cpu", int() | float():
            return f"{value:.2f} s"
        case _:
            return _words(value)


def _words(value: Any) -> str:
    """Any value on one line, without the punctuation of JSON as far as that is clear."""
    match value:
        case str():
            return one_line(value)
        case {}:
            pairs = mapping(value).items()
            return ", ".join(f"{one_line(key)} {_words(part)}" for key, part in pairs if part is not None)
        case [*texts] if all(isinstance(text, str) for text in texts):
            return one_line(", ".join(texts))
        case _:
            return one_line(json.dumps(value))
