"""Every counter equals what was done: a mix of calls, kills and reloads, written down as it happens."""

import json
import os
import signal
from collections import Counter
from typing import Any

from tests.e2e.support import Client, Json, Launcher, fake, until
from tests.e2e.test_presence import PAGES, page
from tests.files import save

FOR_EVER = 600
RESTARTED = {"policy": "on-failure", "delay": 0.05}
LARGEST = 10_000
SETTINGS = {"policy": "confirm", "maxResultBytes": LARGEST}
UNSTEADY = "server_cpu_seconds_total"


class Ledger:
    """A daemon, a script that acts on it, and what the script has done, in the names of the series."""

    def __init__(self, launcher: Launcher, **servers: Json) -> None:
        self._launcher = launcher
        self.daemon = launcher.start(servers, **PAGES, **SETTINGS)
        self._client, self._events = self.daemon.connect(), self.daemon.connect()
        self._events.result("events/subscribe", kinds=["reload"])
        self._start = self._counters()
        self.done: Counter[str] = Counter()

    def _counters(self) -> Counter[str]:
        text = page(self.daemon.port, "/metrics")[1]
        rows = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
        series = {name.removeprefix("mcp_supervisor_"): float(value) for name, _, value in rows}
        kept = {name: int(value) for name, value in series.items() if is_steady_counter(name)}
        return Counter(kept)

    def counted(self) -> dict[str, int]:
        """What the daemon has counted since the script began."""
        return dict(self._counters() - self._start)

    # What the script does.

    def ask(self, method: str, code: str = "ok", /, **params: Any) -> Json:
        """Make a request that is answered so, in the words of the series."""
        answer = self._client.reply(method, **params)
        self.answered(method, code)
        return answer

    def answered(self, method: str, code: str) -> None:
        self._note("control_requests_total", method=method, code=code)

    def reach(self, server: str, state: str, run: int) -> int:
        """Wait until a server is so, and return its pid."""

        def look() -> Json | None:
            shown: Json = self.ask("servers/get", server=server)["result"]
            return shown if (shown["state"], shown["run"]) == (state, run) else None

        found = until(look)
        assert found is not None
        return found["pid"] or 0

    def call(self, server: str, tool: str, outcome: str, code: str = "ok", /, **params: Any) -> None:
        """Make a call that reaches the server, or waits for it, and ends so."""
        answer = self.ask("tools/call", code, name=f"{server}_{tool}", **{"approved": True, **params})
        assert ("error" in answer) == (code != "ok"), answer
        self.ended(server, tool, outcome)

    def ended(self, server: str, tool: str, outcome: str, *, admitted: bool = True) -> None:
        name = f"{server}_{tool}" if server else "unknown"
        self._note("tool_calls_total", server=server, tool=name, outcome=outcome)
        if admitted:
            self._note("tool_call_seconds_count", server=server)
        if outcome in ("ok", "tool_error"):
            self._note("result_bytes_count", server=server)

    def exited(self, server: str, kind: str) -> None:
        self._note("server_exits_total", server=server, kind=kind)

    def restarted(self, server: str, reason: str) -> None:
        self._note("server_restarts_total", server=server, reason=reason)

    def save(self, result: str, /, **servers: Json) -> None:
        """Have new servers configured, and wait for what the daemon makes of that."""
        settings = {**PAGES, **SETTINGS}
        self.write(result, json.dumps({"mcpServers": servers, "supervisor": settings}))

    def write(self, result: str, text: str) -> None:
        save(self._launcher.config, text)
        self._reloaded(result)

    def reload(self, result: str, code: str) -> None:
        """Ask for a reload."""
        self.ask("supervisor/reload", code)
        self._reloaded(result)

    def _reloaded(self, result: str) -> None:
        self._events.receive()
        self._note("config_reloads_total", result=result)

    def _note(self, series: str, **labels: str) -> None:
        shown = ",".join(f'{name}="{value}"' for name, value in labels.items())
        self.done[f"{series}{{{shown}}}"] += 1


def is_steady_counter(name: str) -> bool:
    series = name.partition("{")[0]
    return series.endswith(("_total", "_count")) and series != UNSTEADY


def make_calls(ledger: Ledger) -> None:
    """One call, or more, for each way in which a call can end."""
    for _ in range(5):
        ledger.call("a", "echo", "ok")
    ledger.call("a", "error", "tool_error")
    ledger.call("a", "rpc_error", "rejected", "fault", arguments={"code": -32602})
    ledger.call("a", "sleep", "timed_out", "-32005", arguments={"seconds": FOR_EVER}, timeout=0.05)
    ledger.call("b", "noise", "ok", arguments={"lines": 3})
    ledger.done['server_stdout_noise_total{server="b"}'] += 3
    ledger.call("b", "stderr", "ok", arguments={"text": "x" * 99})
    ledger.done['server_stderr_bytes_total{server="b"}'] += 99
    ledger.call("b", "big", "ok", arguments={"bytes": LARGEST + 1})
    ledger.done['results_truncated_total{server="b"}'] += 1
    ledger.ask("tools/call", "-32008", name="a_crash", approved=False)
    ledger.ended("a", "crash", "rejected", admitted=False)
    ledger.ask("tools/call", "-32002", name="nobody_knows")
    ledger.ended("", "nobody_knows", "rejected", admitted=False)
    ledger.daemon.client.error("no/such/method")
    ledger.answered("unknown", "-32601")


def cancel_calls(ledger: Ledger) -> None:
    """One call that is cancelled by its client, and one whose client leaves."""
    sleep = {"name": "a_sleep", "arguments": {"seconds": FOR_EVER}, "approved": True}
    with Client(ledger.daemon.socket) as client:
        client.notify("notifications/cancelled", requestId=client.ask("tools/call", **sleep))
        assert client.receive()["error"]["code"] == -32006
        ledger.answered("notifications/cancelled", "ok")
        client.ask("tools/call", **sleep)
        assert client.result("supervisor/ping") == {}
        ledger.answered("supervisor/ping", "ok")
    for _ in range(2):
        ledger.ended("a", "sleep", "cancelled")
        ledger.answered("tools/call", "-32006")


def kill_servers(ledger: Ledger) -> None:
    """Ends that were not asked for, and the starts that follow."""
    os.kill(ledger.reach("a", "connected", 1), signal.SIGKILL)
    ledger.exited("a", "signal")
    ledger.restarted("a", "failure")
    ledger.reach("a", "connected", 2)
    ledger.call("a", "crash", "unknown", "-32004", arguments={"code": 3})
    ledger.exited("a", "error")
    ledger.restarted("a", "failure")
    ledger.reach("a", "connected", 3)
    ledger.call("b", "exit_later", "ok")
    ledger.exited("b", "clean")
    ledger.reach("b", "unavailable", 1)
    ledger.ask("tools/call", "-32003", name="b_echo", approved=True)
    ledger.ended("b", "echo", "not_sent", admitted=False)


def order_servers(ledger: Ledger) -> None:
    """Ends and starts that were asked for."""
    ledger.ask("servers/start", server="b")
    ledger.restarted("b", "requested")
    ledger.ask("servers/restart", server="b")
    ledger.exited("b", "stopped")
    ledger.restarted("b", "requested")
    ledger.ask("servers/stop", server="b")
    ledger.exited("b", "stopped")


def reload_configuration(ledger: Ledger) -> None:
    """Files that can be used, that cannot, and that name a server which does not come up."""
    a = fake(restart=RESTARTED)
    ledger.write("refused", "{")
    ledger.reload("refused", "-32010")
    ledger.save("failed", a=a, b=fake(), bad=fake("--exit-at", "spawn"))
    ledger.save("ok", a=a | {"env": {"NEW": "1"}}, b=fake(), c=fake())
    ledger.exited("a", "stopped")
    ledger.reload("ok", "ok")
    ledger.call("a", "echo", "ok")
    ledger.call("c", "echo", "ok")


def test_every_counter_equals_what_was_done(launcher: Launcher) -> None:
    ledger = Ledger(launcher, a=fake(restart=RESTARTED), b=fake())

    make_calls(ledger)
    cancel_calls(ledger)
    kill_servers(ledger)
    order_servers(ledger)
    reload_configuration(ledger)
    # The run that was replaced ends when it is idle, and nobody waits for that.
    until(lambda: 'server_exits_total{server="a",kind="stopped"}' in ledger.counted())

    assert ledger.counted() == dict(ledger.done)
