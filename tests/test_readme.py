"""What the README claims: its commands, keys, links, tables and examples are true."""

import importlib.util
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from supervisor import errors
from supervisor.cli.parser import MODULES, parse
from supervisor.core import phases
from supervisor.core.interpolate import is_literal
from supervisor.core.shapes import TRANSPORTS
from supervisor.core.view import state_word
from supervisor.runtime.configfile import load
from tests.e2e.support import PATIENCE, launching

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PAGES = ("README.md", "docs/control-api.md")

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)")


def blocks(language: str) -> list[str]:
    return [text for name, text in _BLOCK.findall(README) if name == language]


def section(heading: str) -> str:
    """The text below a heading, or below a word in bold, up to the next one."""
    pattern = rf"^(?:#+ |\*\*){heading}(?:\.\*\*)?$(.*?)(?=^#|^\*\*|\Z)"
    (text,) = re.findall(pattern, README, re.MULTILINE | re.DOTALL)
    return str(text)


def first_cells(text: str) -> list[str]:
    """What stands in code in the first column of the tables of a text."""
    rows = re.findall(r"^\| (`[^|]*) \|", text, re.MULTILINE)
    return [code for cell in rows for code in re.findall(r"`([^`]+)`", cell)]


def commands() -> Iterator[str]:
    prose = _BLOCK.sub("", README)
    yield from re.findall(r"^\$ \.venv/bin/mcp-supervisor (.+)$", "".join(blocks("")), re.MULTILINE)
    yield from re.findall(r"`mcp-supervisor ([^`]+)`", prose)


@pytest.mark.parametrize("words", sorted(set(commands())))
def test_every_command_can_be_typed(words: str) -> None:
    assert callable(parse(shlex.split(words)))


def test_every_verb_is_in_the_table_of_commands() -> None:
    rows = first_cells(section("Command line"))

    assert [row.split()[1] for row in rows] == list(MODULES)


def test_the_exit_statuses_are_those_of_the_errors() -> None:
    (sentence,) = re.findall(r"^Exit status: .*?\.$", README, re.MULTILINE | re.DOTALL)
    known = {errors.DONE, errors.FAILED, errors.USAGE, errors.NOT_RUNNING, errors.UNREACHABLE}

    assert set(map(int, re.findall(r"\b\d+\b", sentence))) == known | {errors.BAD_CONFIG}


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    text = (ROOT / page).read_text()

    for path, place in _LINK.findall(text):
        target = (ROOT / page).parent / path if path else ROOT / page
        assert target.exists(), path
        assert not place or place in places(target.read_text()), place


def places(text: str) -> set[str]:
    """Where a link into a page can lead."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("text", blocks("json"))
def test_every_configuration_loads_without_a_complaint(text: str, tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(text)

    loaded = load([file], {"HOME": "/home/somebody"})

    assert loaded.servers
    assert (loaded.problems, loaded.notices) == ((), ())


@pytest.mark.parametrize("text", blocks("yaml"))
def test_every_agent_loads_without_a_complaint(text: str, tmp_path: Path) -> None:
    (tmp_path / "mcp.json").write_text("{}")
    (tmp_path / "AGENTS.md").write_text(text)

    loaded = load([tmp_path / "mcp.json"], {})

    assert loaded.agents
    assert (loaded.problems, loaded.notices) == ((), ())


def test_every_reference_in_the_table_is_one() -> None:
    references = first_cells(section("References"))

    assert len(references) == 9
    assert not [reference for reference in references if is_literal(reference)]


def test_the_names_of_transports_are_those_that_are_understood() -> None:
    (sentence,) = re.findall(r"^`stdio` and .*?Streamable HTTP;", README, re.MULTILINE | re.DOTALL)

    assert re.findall(r"`([^`]+)`", sentence) == list(TRANSPORTS)


def test_every_state_is_explained() -> None:
    stop = phases.StopCause.REQUESTED
    known: list[phases.Phase] = [
        *(phases.Stopped(), phases.Idle(), phases.Starting(0), phases.Ready(0), phases.Backoff(0)),
        *(phases.Stopping(0, stop, ""), phases.Killing(0, stop, ""), phases.Unavailable("")),
    ]
    words = {state_word(phase, enabled=enabled) for phase in known for enabled in (True, False)}

    assert set(first_cells(section("States"))) == words


def test_every_alert_is_explained() -> None:
    rules = (ROOT / "data/prometheus/alerts.yml").read_text()

    explained = [name for name in first_cells(README) if name.startswith("Mcp")]
    assert explained == re.findall(r"alert: (\w+)", rules)


def test_the_tables_of_keys_are_those_that_the_models_give() -> None:
    tool = load_tool()
    parts = tool.configuration()

    assert sorted(tool.parts_in(README)) == sorted(parts)
    assert tool.fill(README, parts) == README, "run python tools/api_docs.py --write"


def load_tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("api_docs_of_readme", ROOT / "tools" / "api_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_stale_page_is_named_and_mended(tmp_path: Path) -> None:
    tool, page = load_tool(), tmp_path / "page.md"
    page.write_text("before\n<!-- begin keys-of-http -->\nold\n<!-- end keys-of-http -->\nafter\n")

    assert tool.refresh([page], write=False) == [page]
    assert tool.refresh([page], write=True) == [page]
    assert tool.refresh([page], write=True) == []
    assert "`supervisor.http.port`" in page.read_text()


@pytest.mark.parametrize("text", blocks("python"))
def test_the_python_example_works(text: str, tmp_path: Path) -> None:
    with launching(tmp_path) as launcher:
        launcher.start({"demo": {"command": sys.executable, "args": ["-m", "supervisor.demo"]}})
        ran = subprocess.run(
            [sys.executable, "-c", text],
            env={**launcher.environment, "MCP_SUPERVISOR_SOCKET": str(launcher.socket)},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=True,
        )

    assert ran.stdout.startswith("demo_hash_text\n")
    assert '"zone": "UTC"' in ran.stdout
