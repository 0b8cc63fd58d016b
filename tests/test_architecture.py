"""The lifecycle diagram in docs/architecture.md is what the code does."""

import re
import sys
from pathlib import Path

import pytest

from supervisor.core.phases import Phase
from tools import diagram

DOCUMENT = diagram.DOCUMENT.read_text(encoding="utf-8")


def test_the_diagram_in_the_document_is_drawn_from_the_code() -> None:
    assert diagram.section() in DOCUMENT, "run: python tools/diagram.py --write"


def test_redrawing_changes_nothing_but_the_diagram() -> None:
    spoiled = DOCUMENT.replace(diagram.mermaid(), "an old picture\n")
    assert spoiled != DOCUMENT

    assert diagram.redrawn(spoiled) == DOCUMENT


def test_a_document_without_a_place_for_the_diagram_is_an_error() -> None:
    with pytest.raises(ValueError, match="cannot find the markers"):
        diagram.redrawn("# Architecture\n")


def test_every_phase_is_drawn_and_can_be_entered_and_left() -> None:
    arrows = re.findall(r"(\w+) --> (\w+): ", diagram.mermaid())

    phases = {phase.__name__ for phase in Phase.__args__}
    assert {source for source, _ in arrows} == phases
    assert {target for _, target in arrows} == phases


def test_labels_hold_nothing_that_ends_a_label() -> None:
    labels = [line.partition(": ")[2] for line in diagram.mermaid().splitlines()]

    assert not [label for label in labels if ":" in label or ";" in label]


def test_every_module_that_the_document_names_exists() -> None:
    root = Path(diagram.__file__).parent.parent
    named = re.findall(r"`((?:core|runtime|surfaces|tests|tools)/[\w/]+\.py)`", DOCUMENT)

    assert named
    assert [
        path for path in named if not (root / path).exists() and not (root / "supervisor" / path).exists()
    ] == []


def test_the_tool_prints_the_diagram(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["diagram.py"])
    diagram.main()

    assert capsys.readouterr().out == diagram.mermaid()
