"""From what runs and what is wanted to what must change.

Servers are compared by what launches them: command, arguments, environment, directory, address, headers,
protocol and framing, with all references filled in. So white space, key order and comments change nothing,
a changed timeout restarts nothing, and a changed secret restarts exactly its server.
"""

from collections.abc import Mapping
from typing import Literal

from supervisor.core.servers import BadServer, ServerSpec
from supervisor.core.spec import Entry, StdioEntry

Kind = Literal["add", "remove", "replace", "retune", "unchanged"]

Spec = ServerSpec | BadServer


def diff(running: Mapping[str, Spec], wanted: Mapping[str, Spec]) -> dict[str, Kind]:
    """What has to happen to each server, by name."""
    return {
        name: _change(running.get(name), wanted.get(name)) for name in sorted(running.keys() | wanted.keys())
    }


def _change(before: Spec | None, after: Spec | None) -> Kind:
    if after is None:
        return "remove"
    if before is None:
        return "add"
    if isinstance(after, BadServer):
        # A server that runs is kept as it was; one that does not shows what is wrong with it now.
        return "unchanged" if isinstance(before, ServerSpec) or before == after else "replace"
    if isinstance(before, BadServer):
        return "replace"
    return _between(before, after)


def _between(before: ServerSpec, after: ServerSpec) -> Kind:
    if before.entry.enabled and not after.entry.enabled:
        return "remove"
    if after.entry.enabled and not before.entry.enabled:
        return "add"
    if after.entry.enabled and _launch(before) != _launch(after):
        return "replace"
    return "unchanged" if before == after else "retune"


def _launch(spec: ServerSpec) -> tuple[object, ...]:
    """What cannot be changed without a new run."""
    return (spec.target, spec.trouble, spec.entry.type, spec.entry.protocol, _framing(spec.entry))


def _framing(entry: Entry) -> str | None:
    return entry.framing if isinstance(entry, StdioEntry) else None
