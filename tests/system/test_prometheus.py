"""The metrics, the rules and the dashboard, held against a real Prometheus and its promtool."""

import json
import os
import re
import signal
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.support import Daemon, Launcher, fake, launching, until
from tests.ports import reserved

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / ".tools/prometheus/usr/bin"
RULES = ROOT / "data/prometheus"
DASHBOARD = ROOT / "data/grafana/mcp-supervisor.json"
NOTE = ROOT / ".tools/prometheus.missing"
MISSING = NOTE.read_text().strip() if NOTE.exists() else "not there; run tests/system/prepare"
pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(120),
    pytest.mark.skipif(not (PROGRAMS / "promtool").exists(), reason=f"Prometheus: {MISSING}"),
]
PATIENCE = 30.0
OPENMETRICS = "application/openmetrics-text;version=1.0.0"


def promtool(*words: str | Path, given: str | None = None) -> str:
    """What promtool says; it must be content."""
    done = subprocess.run(
        [PROGRAMS / "promtool", *words],
        input=given,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        cwd=RULES,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def get(url: str, **headers: str) -> str:
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=PATIENCE) as answer:
        text: str = answer.read().decode()
        return text


def series(text: str) -> dict[str, float]:
    """The samples of a scrape, without the prefix."""
    rows = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name.removeprefix("mcp_supervisor_"): float(value) for name, _, value in rows}


class Scraped:
    """A daemon with metrics."""

    def __init__(self, launcher: Launcher, **servers: Any) -> None:
        self.launcher = launcher
        self.daemon: Daemon = launcher.start(servers, http={"port": 0}, policy="open")
        self.port = self.daemon.port

    @property
    def client(self) -> Any:
        return self.daemon.client

    def text(self, **headers: str) -> str:
        return get(f"http://127.0.0.1:{self.port}/metrics", **headers)

    def series(self) -> dict[str, float]:
        return series(self.text())

    def configure(self, **servers: Any) -> None:
        self.launcher.configure(servers, http={"port": 0}, policy="open")


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[Launcher]:
    with launching(tmp_path) as launcher:
        yield launcher


@contextmanager
def prometheus(directory: Path, target: int) -> Iterator[str]:
    """A Prometheus that scrapes the port every fifth of a second, with our rules but for their patience."""
    directory.mkdir()
    rules = (RULES / "alerts.yml").read_text()
    (directory / "alerts.yml").write_text(re.sub(r"for: \w+", "for: 0s", rules))
    config = yaml.safe_load((RULES / "scrape.yml").read_text())
    config["global"] = {"scrape_interval": "200ms", "scrape_timeout": "200ms", "evaluation_interval": "200ms"}
    config["scrape_configs"][0]["static_configs"][0]["targets"] = [f"127.0.0.1:{target}"]
    (directory / "prometheus.yml").write_text(yaml.safe_dump(config))
    words = (f"--config.file={directory}/prometheus.yml", f"--storage.tsdb.path={directory}/data")
    with reserved() as port, (directory / "log").open("wb") as log:
        address = f"127.0.0.1:{port}"
        process = subprocess.Popen(
            [PROGRAMS / "prometheus", *words, f"--web.listen-address={address}"], stdout=log, stderr=log
        )
        try:
            yield f"http://{address}/api/v1"
        finally:
            process.terminate()
            process.wait(PATIENCE)


def value(api: str, query: str) -> float | None:
    """What a query yields, when it yields one number."""
    try:
        answer = json.loads(get(f"{api}/query?query={urllib.parse.quote(query)}"))
    except OSError:  # not up yet
        return None
    found = answer["data"]["result"]
    return float(found[0]["value"][1]) if len(found) == 1 else None


def test_prometheus_sees_a_child_die_and_fires_the_alert(launcher: Launcher, tmp_path: Path) -> None:
    scraped = Scraped(launcher, victim=fake())
    up = 'mcp_supervisor_server_up{server="victim"}'

    with prometheus(tmp_path / "prometheus", scraped.port) as api:
        until(lambda: value(api, up) == 1 and value(api, 'up{job="mcp-supervisor"}') == 1, seconds=PATIENCE)
        scraped.client.refusal("victim_crash", signal="SIGKILL")

        until(lambda: value(api, up) == 0, seconds=PATIENCE)
        fired = 'ALERTS{alertname="McpServerUnavailable", server="victim", alertstate="firing"}'
        until(lambda: value(api, fired) == 1, seconds=PATIENCE)


def test_promtool_finds_nothing_wrong_with_the_metrics(launcher: Launcher) -> None:
    scraped = Scraped(launcher, good=fake(), bad={"command": "/does/not/exist"})
    scraped.client.text("good_echo")

    assert promtool("check", "metrics", given=scraped.text()) == ""


def test_both_formats_hold_the_same_numbers(launcher: Launcher) -> None:
    scraped = Scraped(launcher, good=fake())
    scraped.client.text("good_echo")
    volatile = re.compile("rss|cpu|fds")

    plain, modern = scraped.text(), scraped.text(Accept=OPENMETRICS)

    assert modern.endswith("# EOF\n")
    steady = [
        {name: number for name, number in series(text).items() if not volatile.search(name)}
        for text in (plain, modern)
    ]
    assert steady[0] == steady[1]


@pytest.mark.parametrize(
    "words",
    [
        ("check", "rules", "alerts.yml"),
        ("test", "rules", "alerts_test.yml"),
        ("check", "config", "scrape.yml"),
    ],
    ids=" ".join,
)
def test_promtool_accepts_what_we_ship(words: tuple[str, ...]) -> None:
    assert "SUCCESS" in promtool(*words)


def test_every_alert_has_a_rule_test() -> None:
    alerts = {
        rule["alert"] for rule in yaml.safe_load((RULES / "alerts.yml").read_text())["groups"][0]["rules"]
    }
    tests = yaml.safe_load((RULES / "alerts_test.yml").read_text())["tests"]

    assert alerts == {case["alertname"] for test in tests for case in test["alert_rule_test"]}


def expressions() -> list[str]:
    """Every query of the dashboard, its variables filled in."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    queries = [target["expr"] for panel in panels for target in panel["targets"]]
    return [query.replace("$__rate_interval", "1m").replace("$", "") for query in queries]


def test_every_query_of_the_dashboard_is_sound(tmp_path: Path) -> None:
    rules = [{"record": f"panel:{number}", "expr": query} for number, query in enumerate(expressions())]
    file = tmp_path / "panels.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))

    assert f"SUCCESS: {len(rules)} rules found" in promtool("check", "rules", file)


def test_the_dashboard_and_the_rules_ask_only_for_what_is_exported(launcher: Launcher) -> None:
    scraped = Scraped(launcher, good=fake())
    scraped.client.text("good_echo")
    exported = {re.split("[{ ]", name)[0] for name in scraped.text().splitlines() if not name.startswith("#")}

    asked = "\n".join((*expressions(), (RULES / "alerts.yml").read_text()))

    assert set(re.findall(r"mcp_supervisor_\w+", asked)) <= exported


def spent(pid: int) -> float:
    """Seconds of processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_scrape_of_fifty_servers_and_2500_tools_costs_less_than_50_ms(launcher: Launcher) -> None:
    scraped = Scraped(launcher, **{f"s{number}": fake("--tools", 50) for number in range(50)})
    for tool in scraped.client.tools():
        scraped.client.text(tool)
    assert scraped.text().count("mcp_supervisor_tool_calls_total{") == 2500

    before = spent(scraped.daemon.process.pid)
    for _ in range(20):
        scraped.text()

    assert (spent(scraped.daemon.process.pid) - before) / 20 < 0.05


def test_a_daemon_ended_by_signal_has_closed_its_port(launcher: Launcher) -> None:
    scraped = Scraped(launcher, good=fake())

    scraped.daemon.signal(signal.SIGTERM)
    assert scraped.daemon.wait() == 0

    with pytest.raises(ConnectionRefusedError), closing(socket.socket()) as probe:
        probe.connect(("127.0.0.1", scraped.port))
