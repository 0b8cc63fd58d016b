"""Finding and loading configuration files from a real file system."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from supervisor.core.agents import Agent
from supervisor.core.servers import BadServer, ConfigFile, Endpoint, Launch, Loaded, ServerSpec
from supervisor.runtime.configfile import config_paths, load

ROOT = Path(__file__).parents[2]


def write(path: Path, document: Any) -> Path:
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    path.chmod(0o600)
    return path


def load_one(directory: Path, document: Any, **environ: str) -> Loaded:
    return load([write(directory / "mcp.json", document)], environ)


def server(loaded: Loaded, name: str = "a") -> ServerSpec:
    found = loaded.servers[name]
    assert isinstance(found, ServerSpec), found
    return found


def trouble(directory: Path, entry: dict[str, Any], **environ: str) -> str | None:
    return server(load_one(directory, {"mcpServers": {"a": entry}}, **environ)).trouble


def launch(directory: Path, entry: dict[str, Any], **environ: str) -> Launch:
    found = server(load_one(directory, {"mcpServers": {"a": entry}}, **environ))
    assert isinstance(found.target, Launch), found.trouble
    return found.target


def test_named_files_come_before_everything() -> None:
    paths = config_paths(["/b.json", "c.json"], {"MCP_CONFIG_PATH": "/a.json"})

    assert paths == (Path("/b.json"), Path.cwd() / "c.json")


def test_the_variable_comes_before_the_usual_places() -> None:
    assert config_paths([], {"MCP_CONFIG_PATH": "/a.json", "HOME": "/h"}) == (Path("/a.json"),)


@pytest.fixture
def no_system_files() -> None:
    if Path("/data/mcp.json").exists() or Path("/etc/mcp-supervisor/mcp.json").exists():
        pytest.skip("this machine has a configuration")


@pytest.mark.usefixtures("no_system_files")
@pytest.mark.parametrize(
    ("environ", "last"),
    [
        ({"XDG_CONFIG_HOME": "{}/xdg", "HOME": "/none"}, "xdg/mcp-supervisor/mcp.json"),
        ({"XDG_CONFIG_HOME": "xdg", "HOME": "{}"}, ".config/mcp-supervisor/mcp.json"),
        ({"HOME": "{}"}, ".config/mcp-supervisor/mcp.json"),
    ],
)
def test_the_first_usual_place_that_exists_is_taken(
    tmp_path: Path, environ: dict[str, str], last: str
) -> None:
    environ = {name: value.format(tmp_path) for name, value in environ.items()}
    (tmp_path / last).parent.mkdir(parents=True)
    write(tmp_path / last, {})

    assert config_paths([], environ) == (tmp_path / last,)


@pytest.mark.usefixtures("no_system_files")
def test_all_usual_places_are_named_when_none_exists(tmp_path: Path) -> None:
    usual = (Path("/data/mcp.json"), Path("/etc/mcp-supervisor/mcp.json"))

    assert config_paths([], {}) == usual
    assert config_paths([], {"HOME": str(tmp_path)}) == (*usual, tmp_path / ".config/mcp-supervisor/mcp.json")


@pytest.mark.usefixtures("no_system_files")
def test_a_place_that_cannot_be_looked_at_is_taken_and_is_a_problem(tmp_path: Path) -> None:
    place = tmp_path / "mcp-supervisor" / "mcp.json"
    place.parent.mkdir()
    place.symlink_to(place)

    paths = config_paths([], {"XDG_CONFIG_HOME": str(tmp_path)})

    assert paths == (place,)
    assert load(paths, {}).unreadable


def test_a_missing_file_means_no_servers_and_no_problem(tmp_path: Path) -> None:
    loaded = load([tmp_path / "none.json"], {})

    assert loaded.files == (ConfigFile(str(tmp_path / "none.json"), found=False),)
    assert (loaded.servers, loaded.problems, loaded.unreadable) == ({}, (), False)


def test_a_file_that_is_not_json_is_a_problem_with_its_place_and_the_others_are_used(tmp_path: Path) -> None:
    broken = write(tmp_path / "broken.json", '{\n  "mcpServers": {,}\n}')
    good = write(tmp_path / "good.json", {"mcpServers": {"a": {"command": "x"}}})

    loaded = load([broken, good], {})

    assert [str(problem) for problem in loaded.problems] == [
        f"{broken}:2:18: expecting property name enclosed in double quotes"
    ]
    assert list(loaded.servers) == ["a"]
    assert loaded.unreadable


def test_a_file_that_others_can_write_is_not_used(tmp_path: Path) -> None:
    path = write(tmp_path / "mcp.json", {"mcpServers": {"a": {"command": "x"}}})
    path.chmod(0o666)

    loaded = load([path], {})

    assert "everybody may write it; run chmod o-w" in str(loaded.problems[0])
    assert (loaded.servers, loaded.unreadable) == ({}, True)
    assert loaded.files == (ConfigFile(str(path), found=True),)


def test_one_bad_entry_never_takes_the_others_down(tmp_path: Path) -> None:
    document = {
        "supervisor": {"policy": "opne"},
        "mcpServers": {"bad": {"command": 1, "args": 2}, "good": {"command": "x"}, "odd": {"type": "sse"}},
    }

    loaded = load_one(tmp_path, document)

    assert [type(found) for found in loaded.servers.values()] == [BadServer, ServerSpec, BadServer]
    assert [problem.path for problem in loaded.problems] == [
        "supervisor.policy",
        "mcpServers.bad.command",
        "mcpServers.bad.args",
        "mcpServers.odd.type",
    ]
    assert not loaded.unreadable


def test_a_later_file_shadows_and_says_so(tmp_path: Path) -> None:
    first = write(tmp_path / "1.json", {"mcpServers": {"a": {"command": "one"}}})
    second = write(tmp_path / "2.json", {"mcpServers": {"a": {"command": "two"}}, "supervisor": {"polcy": 1}})

    loaded = load([first, second], {})

    assert server(loaded).source == str(second)
    assert server(loaded).shadows == (str(first),)
    assert [notice.path for notice in loaded.notices] == ["supervisor.polcy"]


def test_values_come_from_variables_files_and_credentials(tmp_path: Path) -> None:
    write(tmp_path / "key", "from a file\r\n")
    write(tmp_path / "cred", "from systemd\n")
    args = ["${TOKEN}", "{file:key}", "${file:~/key}", "${cred:cred}", "${NONE:-default}"]

    found = launch(
        tmp_path,
        {"command": "x", "args": args},
        TOKEN="t",
        HOME=str(tmp_path),
        CREDENTIALS_DIRECTORY=str(tmp_path),
    )

    values = [text.value for text in found.args]
    assert values == ["t", "from a file", "from a file", "from systemd", "default"]


def test_an_endpoint_is_loaded(tmp_path: Path) -> None:
    entry = {"url": "https://x/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}}

    found = server(load_one(tmp_path, {"mcpServers": {"a": entry}}, TOKEN="t"))

    assert isinstance(found.target, Endpoint)
    assert found.target.headers["Authorization"].value == "Bearer t"


def test_the_daemons_own_interpreter_can_be_named(tmp_path: Path) -> None:
    found = server(load_one(tmp_path, {"mcpServers": {"a": {"command": "${supervisor:python}"}}}))

    assert isinstance(found.target, Launch)
    assert found.target.command.value == sys.executable
    assert not found.secrets


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("${NONE}", "variable NONE is not set"),
        ("{file:none}", "file none is not there"),
        ("{file:binary}", "{file:binary} is not UTF-8 text"),
        ("{file:loose}", "everybody may write it"),
        ("{file:.}", "it is not a regular file"),
        ("${cred:none}", "credential none is not there"),
        ("${cred:../key}", "must be the name of a credential, without a slash"),
        ("${supervisor:perl}", "${supervisor:perl} is not known; only ${supervisor:python} is"),
        ("${workspaceFolder}", "${workspaceFolder} is not supported"),
    ],
)
def test_a_reference_without_a_value_is_trouble(tmp_path: Path, argument: str, words: str) -> None:
    (tmp_path / "binary").write_bytes(b"\xff")
    (tmp_path / "loose").touch()
    (tmp_path / "loose").chmod(0o666)

    found = trouble(tmp_path, {"command": "x", "args": [argument]}, CREDENTIALS_DIRECTORY=str(tmp_path))

    assert words in (found or "")


def test_a_credential_without_systemd_is_trouble(tmp_path: Path) -> None:
    assert "credential key is not there" in (trouble(tmp_path, {"command": "${cred:key}"}) or "")


def test_a_disabled_server_with_an_unset_variable_is_no_trouble(tmp_path: Path) -> None:
    assert trouble(tmp_path, {"command": "${NONE}", "enabled": False}) is None


def test_an_environment_file_lies_beside_the_configuration(tmp_path: Path) -> None:
    write(tmp_path / "a.env", "A=1\nB='two'\n")

    found = launch(tmp_path, {"command": "x", "envFile": "a.env", "env": {"A": "own"}})

    assert {name: text.value for name, text in found.env.items()} == {"A": "own", "B": "two"}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "a.env is not there"),
        ("A", "line 1 is not NAME=value"),
        ("'s3cret", "line 1 is not NAME=value"),
    ],
)
def test_an_environment_file_that_cannot_be_used_is_trouble(
    tmp_path: Path, content: str | None, words: str
) -> None:
    if content is not None:
        write(tmp_path / "a.env", content)

    found = trouble(tmp_path, {"command": "x", "envFile": "a.env"}) or ""

    assert words in found
    assert "s3cret" not in found


AGENTS = "---\nname: architect\ntools: [*, !web_*]\n---\n"


def test_agents_come_from_the_configuration_and_from_the_file_beside_it(tmp_path: Path) -> None:
    beside = write(tmp_path / "AGENTS.md", AGENTS)

    loaded = load_one(tmp_path, {"supervisor": {"agents": {"reader": ["files_*"]}}})

    assert loaded.agents == {
        "architect": Agent("architect", ("*", "!web_*"), str(beside)),
        "reader": Agent("reader", ("files_*",), str(tmp_path / "mcp.json")),
    }
    assert list(loaded.agents) == ["architect", "reader"]
    assert loaded.agents_file == ConfigFile(str(beside), found=True)


def test_the_file_beside_the_last_configuration_that_is_there_is_read(tmp_path: Path) -> None:
    for name in ("first", "second", "third"):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "AGENTS.md", f"---\nname: {name}\n---\n")
    paths = [tmp_path / name / "mcp.json" for name in ("first", "second", "third")]
    for path in paths[:2]:
        write(path, {})

    assert list(load(paths, {}).agents) == ["second"]
    assert list(load(paths[2:], {}).agents) == ["third"]


def test_no_agents_are_looked_for_where_no_file_is_named() -> None:
    assert load([], {}).agents_file is None


def test_a_missing_file_beside_the_configuration_is_no_problem(tmp_path: Path) -> None:
    loaded = load_one(tmp_path, {})

    assert (loaded.agents, loaded.problems) == ({}, ())
    assert loaded.agents_file == ConfigFile(str(tmp_path / "AGENTS.md"), found=False)


@pytest.mark.parametrize("written", ["team.md", "~/team.md", "{}/team.md"])
def test_the_configuration_can_name_another_file(tmp_path: Path, written: str) -> None:
    write(tmp_path / "AGENTS.md", "---\nname: other\n---\n")
    write(tmp_path / "team.md", AGENTS)

    loaded = load_one(tmp_path, {"supervisor": {"agentsFile": written.format(tmp_path)}}, HOME=str(tmp_path))

    assert list(loaded.agents) == ["architect"]


def test_null_names_the_usual_file(tmp_path: Path) -> None:
    write(tmp_path / "AGENTS.md", AGENTS)

    assert list(load_one(tmp_path, {"supervisor": {"agentsFile": None}}).agents) == ["architect"]


def test_a_named_file_that_is_missing_is_a_problem(tmp_path: Path) -> None:
    loaded = load_one(tmp_path, {"supervisor": {"agentsFile": "team.md"}})

    (problem,) = loaded.problems
    assert (problem.file, problem.path) == (str(tmp_path / "mcp.json"), "supervisor.agentsFile")
    assert problem.message == f"names {tmp_path}/team.md, which is not there; create it or correct the name"
    assert not loaded.unreadable


def test_agents_in_a_file_that_others_can_write_are_not_used(tmp_path: Path) -> None:
    write(tmp_path / "AGENTS.md", AGENTS).chmod(0o666)

    loaded = load_one(tmp_path, {"mcpServers": {"a": {"command": "x"}}})

    assert "everybody may write it; run chmod o-w" in str(loaded.problems[0])
    assert (loaded.agents, list(loaded.servers), loaded.unreadable) == ({}, ["a"], False)


def test_a_wrong_block_is_a_problem_of_the_configuration(tmp_path: Path) -> None:
    write(tmp_path / "AGENTS.md", "---\nname: [\n---\n" + AGENTS)

    loaded = load_one(tmp_path, {})

    assert [(problem.file, problem.line) for problem in loaded.problems] == [(str(tmp_path / "AGENTS.md"), 2)]
    assert list(loaded.agents) == ["architect"]


def test_the_configuration_wins_over_the_file_beside_it(tmp_path: Path) -> None:
    write(tmp_path / "AGENTS.md", AGENTS)

    loaded = load_one(tmp_path, {"supervisor": {"agents": {"architect": ["x"]}}})

    assert loaded.agents["architect"].patterns == ("x",)
    assert "mcp.json describes it too, and wins" in str(loaded.notices[0])


def test_an_agent_that_is_wrong_in_the_configuration_is_not_taken_from_the_file_beside_it(
    tmp_path: Path,
) -> None:
    write(tmp_path / "AGENTS.md", AGENTS)

    loaded = load_one(tmp_path, {"supervisor": {"agents": {"architect": ["x", "!"]}}})

    assert not loaded.agents
    assert [problem.path for problem in loaded.problems] == ["supervisor.agents.architect[1]"]


def test_yaml_is_loaded_only_when_there_is_a_file_to_read(tmp_path: Path) -> None:
    write(tmp_path / "mcp.json", {"supervisor": {"agents": {"a": ["*"]}}})
    script = (
        "import sys; from pathlib import Path; from supervisor.runtime.configfile import load; "
        f"load([Path({str(tmp_path / 'mcp.json')!r})], {{}}); print('yaml' in sys.modules)"
    )
    answers: list[str] = []
    for content in ("", AGENTS):
        if content:
            write(tmp_path / "AGENTS.md", content)
        done = subprocess.run(
            [sys.executable, "-c", script], cwd=ROOT, capture_output=True, timeout=30, check=True
        )
        answers.append(done.stdout.decode().strip())

    assert answers == ["False", "True"]


def test_an_operator_enables_and_disables_by_name_whatever_the_file_says(tmp_path: Path) -> None:
    entries = {
        "on": {"command": "x"},
        "off": {"command": "${NONE}", "enabled": False},
        "same": {"command": "x"},
        "bad": {"command": 1},
    }
    path = write(tmp_path / "mcp.json", {"mcpServers": entries})

    switched = {"on": False, "off": True, "bad": True, "unknown": True}
    loaded = load([path], {}, overrides=lambda _: switched)

    assert (server(loaded, "on").entry.enabled, server(loaded, "on").overridden) == (False, True)
    assert "variable NONE is not set" in (server(loaded, "off").trouble or "")
    assert not server(loaded, "same").overridden
    assert isinstance(loaded.servers["bad"], BadServer)
    assert list(loaded.servers) == ["bad", "off", "on", "same"]


def test_the_shipped_configuration_starts_the_demo_and_leaves_context7_alone() -> None:
    loaded = load([ROOT / "data" / "mcp.json"], {})

    assert not loaded.problems
    assert not loaded.notices
    assert isinstance(server(loaded, "demo").target, Launch)
    assert not server(loaded, "context7").entry.enabled
