"""`status`: how the servers are, the broken ones first."""

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from supervisor.cli.detail import server_lines
from supervisor.cli.grammar import Options, Parser, Verb
from supervisor.cli.render import (
    DIM,
    GREEN,
    RED,
    YELLOW,
    Column,
    coloured,
    duration,
    screen_width,
    table,
)
from supervisor.core.printable import one_line
from supervisor.errors import DONE, NOT_RUNNING
from supervisor.surfaces.client import SyncClient

STATE_COLOURS = {
    "connected": GREEN,
    "unavailable": RED,
    "connecting": YELLOW,
    "stopping": YELLOW,
    "idle": DIM,
    "stopped": DIM,
    "disabled": DIM,
}

Server = Mapping[str, Any]


def _declare(parser: Parser) -> None:
    parser.add_argument("server", nargs="?", metavar="SERVER", help="show all that is known of this one")


def show_status(options: Options) -> int:
    """Print how the servers are, or how one is."""
    with SyncClient(options.socket) as client:
        if options.server is None:
            return _show_fleet(client, as_json=options.json)
        return _show_server(client, options.server, as_json=options.json)


STATUS = Verb(
    "status",
    "show how the servers are, the broken ones first",
    """\
  mcp-supervisor status
  mcp-supervisor status github        (exit status 3 unless it is connected)
  mcp-supervisor status --json | jq -r '.servers[] | select(.exit != null).name'
  mcp-supervisor status --json | jq -r '.problems[]'   (of the configuration)
""",
    show_status,
    _declare,
)


def _show_fleet(client: SyncClient, *, as_json: bool) -> int:
    """Print all servers; that the daemon answers is success, whatever it says of them."""
    servers = client.servers()
    daemon = client.request("supervisor/info")
    if as_json:
        print(json.dumps({"servers": servers, "problems": list(daemon.get("problems", ()))}, indent=2))
        return DONE
    for line in fleet_lines(servers, daemon, now=time.time(), width=screen_width(), colour=coloured()):
        print(line)
    return DONE


def _show_server(client: SyncClient, name: str, *, as_json: bool) -> int:
    """Print all that is known of one server; success means that it is connected."""
    server = client.server(name)
    if as_json:
        print(json.dumps(server, indent=2))
    else:
        colours = STATE_COLOURS if coloured() else {}
        for line in server_lines(server, now=time.time(), width=screen_width(), colours=colours):
            print(line)
    return DONE if server["state"] == "connected" else NOT_RUNNING


def fleet_lines(
    servers: Sequence[Server], daemon: Mapping[str, Any], *, now: float, width: int, colour: bool
) -> list[str]:
    """The table, the counts below it, and what is wrong with the configuration."""
    columns = (
        Column("NAME", most=20),
        Column("STATE", colours=STATE_COLOURS if colour else {}),
        Column("FOR", right=True),
        Column("PID", right=True),
        Column("TOOLS", right=True),
        Column("CALLS", right=True),
        Column("NOTE"),
    )
    rows = [_row(server, now) for server in sorted(servers, key=broken_first)]
    body = table(columns, rows, width=width) if rows else _how_to_begin(daemon)
    problems = [f"problem: {one_line(str(problem))}" for problem in daemon.get("problems", ())]
    return [*body, *([counts(servers)] if rows else []), *problems]


def counts(servers: Sequence[Server]) -> str:
    """`11/12 connected`; a disabled server is not missed, so it is counted apart."""
    states = [server["state"] for server in servers]
    disabled = states.count("disabled")
    apart = f", {disabled} disabled" if disabled else ""
    return f"{states.count('connected')}/{len(states) - disabled} connected{apart}"


def broken_first(server: Server) -> tuple[bool, str]:
    """The key by which servers are sorted: what needs a person, then by name."""
    broken = server["state"] == "unavailable" or str(server.get("phase")).lower() == "backoff"
    return not broken, server["name"]


def _row(server: Server, now: float) -> tuple[str, ...]:
    return (
        server["name"],
        server["state"],
        _age(server.get("since"), now),
        _number(server.get("pid")),
        _number(server.get("tools")),
        _number(server.get("pending")),
        _note(server),
    )


def _note(server: Server) -> str:
    """What the other columns do not say: why it does not answer, or that its entry says otherwise."""
    connected, old = server["state"] == "connected", server.get("draining")
    said = (
        f"not as its entry says now: {server['behind']}" if server.get("behind") else "",
        "" if connected else server.get("reason"),
        "" if connected or not server.get("remembered") else "tools remembered",
        "enabled by an operator" if connected and server.get("overridden") else "",
        f"{old} call{'' if old == 1 else 's'} on the old run" if old else "",
    )
    return "; ".join(str(part) for part in said if part)


def _age(since: float | None, now: float) -> str:
    return "-" if since is None else duration(now - since)


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)


def _how_to_begin(daemon: Mapping[str, Any]) -> list[str]:
    files = " or ".join(one_line(file["path"]) for file in daemon.get("configFiles", ()))
    return [f"no servers; add one to {files or 'a config file'}"]
