"""Finding other programs' servers on a real file system."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from supervisor.errors import BadConfig
from supervisor.runtime.editing import add
from supervisor.runtime.importing import Found, find


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def look(
    source: str | None,
    project: Path,
    environ: Mapping[str, str] = MappingProxyType({}),
    *,
    existing: str = "",
) -> Found:
    environ = {"HOME": str(project.parent / "home"), **environ}
    return find(source, environ, existing=existing.split(), project=project)


def test_every_program_is_looked_for_and_each_name_is_offered_once(project: Path) -> None:
    home = project.parent / "home"
    write(home / ".config/Claude/claude_desktop_config.json", {"mcpServers": {"a": {"command": "a"}}})
    write(home / ".codex/config.toml", '[mcp_servers.b]\ncommand = "b"')
    write(project / ".vscode/mcp.json", {"servers": {"a": {"command": "other"}, "c": {"command": "c"}}})

    found = look(None, project, existing="c")

    assert [(offer.name, offer.state) for offer in found.offers] == [
        ("a", "new"),
        ("a", "exists"),
        ("c", "exists"),
        ("b", "new"),
    ]
    assert len(found.files) == 3


def test_one_program_is_looked_for_where_its_variables_say(project: Path, tmp_path: Path) -> None:
    write(tmp_path / "codex/config.toml", '[mcp_servers.b]\ncommand = "b"')
    write(
        tmp_path / "xdg/opencode/opencode.jsonc", '{"mcp": {"c": {"type": "local", "command": ["c"]}}} // c'
    )
    environ = {"CODEX_HOME": str(tmp_path / "codex"), "XDG_CONFIG_HOME": str(tmp_path / "xdg")}

    assert [offer.name for offer in look("codex", project, environ).offers] == ["b"]
    assert [offer.name for offer in look("opencode", project, environ).offers] == ["c"]
    assert look("cursor", project, environ) == Found((), (), ())


def test_a_file_can_be_named_relative_to_the_project(project: Path) -> None:
    file = write(project / "other.json", {"mcpServers": {"a": {"command": "a"}}})

    found = look("other.json", project)

    assert (found.files, [offer.name for offer in found.offers]) == ((str(file),), ["a"])


def test_a_name_that_is_neither_program_nor_file_is_refused(project: Path) -> None:
    with pytest.raises(BadConfig, match="the known programs are claude, claude-code, cursor"):
        look("windsurf", project)


def test_a_file_that_cannot_be_used_is_a_problem_and_the_others_are_offered(project: Path) -> None:
    broken = write(project / ".mcp.json", "{")
    unsafe = write(project / ".cursor/mcp.json", {"mcpServers": {"x": {"command": "x"}}})
    unsafe.chmod(0o666)
    write(project / ".vscode/mcp.json", {"servers": {"a": {"command": "a"}}})

    found = look(None, project)

    assert [offer.name for offer in found.offers] == ["a"]
    assert str(broken) in found.problems[0]
    assert "line 1" in found.problems[0]
    assert f"cannot trust {unsafe}" in found.problems[1]


def test_what_was_found_can_be_added_as_it_is_with_its_secrets_but_without_showing_them(
    project: Path,
) -> None:
    write(project / ".mcp.json", {"mcpServers": {"a": {"command": "a", "env": {"K": "s3cret"}}}})
    config = project / "ours.json"

    edited = add(config, {offer.name: offer.entry for offer in look(None, project).offers})

    assert "s3cret" in config.read_text()
    assert "s3cret" not in edited.difference
