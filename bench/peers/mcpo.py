"""mcpo: one OpenAPI application for each server; a tool is a path that takes its arguments as JSON."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from bench.contender import Fleet
from bench.peers.http import request
from bench.peers.web import WebPeer


def command(installed: Path, fleet: Fleet, config: Path) -> list[str]:
    address = ["--host", "127.0.0.1", "--port", str(fleet.port)]
    return [str(installed / "mcpo"), *address, "--config", str(config), "--log-level", "WARNING"]


class Contender(WebPeer):
    faults = ()

    def call(self, server: int, tool: str, arguments: Mapping[str, Any]) -> bytes:
        return request("POST", f"/s{server}/{tool}", msgspec.json.encode(arguments))

    def listing(self, server: int) -> bytes:
        return request("GET", f"/s{server}/openapi.json")

    def tools_in(self, body: bytes) -> int:
        return len(msgspec.json.decode(body)["paths"])

    def text_in(self, body: bytes) -> str:
        return str(msgspec.json.decode(body))
