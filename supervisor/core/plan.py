"""From what runs and what is wanted to what must change.

Servers are compared by what launches them: command, arguments, environment, directory, address, headers,
roots, protocol and framing, each as the value that it comes to. So white space, key order and comments
change nothing, a changed timeout or another spelling of the same value restarts nothing, and a changed secret
restarts exactly its server.
"""

import hashlib
from collections.abc import Mapping
from typing import Literal, assert_never

from supervisor.core.interpolate import Text
from supervisor.core.servers import BadServer, Endpoint, Launch, ServerSpec
from supervisor.core.spec import Entry, StdioEntry

Kind = Literal["add", "remove", "replace", "retune", "unchanged"]

Spec = ServerSpec | BadServer


def diff(running: Mapping[str, Spec], wanted: Mapping[str, Spec]) -> dict[str, Kind]:
    """What has to happen to each server, by name."""
    return {
        name: change(running.get(name), wanted.get(name)) for name in sorted(running.keys() | wanted.keys())
    }


def change(before: Spec | None, after: Spec | None) -> Kind:
    """What has to happen to one server; None is one that is not there."""
    if before == after:
        return "unchanged"
    if after is None:
        return "remove"
    if before is None:
        return "add"
    if isinstance(after, BadServer):
        # A server that runs is kept as it was; one that does not shows what is wrong with it now.
        return "unchanged" if isinstance(before, ServerSpec) else "replace"
    if isinstance(before, BadServer):
        return "replace"
    return _between(before, after)


def _between(before: ServerSpec, after: ServerSpec) -> Kind:
    if before.entry.enabled and not after.entry.enabled:
        return "remove"
    if after.entry.enabled and not before.entry.enabled:
        return "add"
    return "replace" if after.entry.enabled and _launch(before) != _launch(after) else "retune"


def fingerprint(spec: ServerSpec) -> str:
    """A short name for what launches the server, the same for every daemon that reads the same."""
    entry = spec.entry
    launch = (_values(spec.target), entry.type, entry.protocol, _framing(entry))
    return hashlib.sha256(repr(launch).encode(errors="surrogatepass")).hexdigest()[:32]


def _values(target: Launch | Endpoint | None) -> tuple[object, ...]:
    """What a target comes to, with every reference filled in."""
    match target:
        case Launch(command=command, args=args, env=env, cwd=cwd, inherit_env=names):
            place = None if cwd is None else cwd.value
            return (command.value, [each.value for each in args], _sorted(env), place, sorted(set(names)))
        case Endpoint(url=url, headers=headers, ca_file=ca_file):
            return (url.value, _sorted(headers), ca_file)
        case None:
            return ()
    assert_never(target)


def _sorted(texts: Mapping[str, Text]) -> list[tuple[str, str]]:
    return sorted((name, text.value) for name, text in texts.items())


def _launch(spec: ServerSpec) -> tuple[object, ...]:
    """What cannot be changed without a new run: what its entry comes to, however it is written."""
    roots = None if spec.roots is None else [root.value for root in spec.roots]
    entry = spec.entry
    return (_values(spec.target), roots, spec.trouble, entry.type, entry.protocol, _framing(entry))


def _framing(entry: Entry) -> str | None:
    return entry.framing if isinstance(entry, StdioEntry) else None
