"""References: what they stand for, what is left alone, and what never shows."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.interpolate import (
    MissingReferences,
    Reference,
    Resolve,
    Text,
    Unresolved,
    interpolate,
    is_literal,
)

VALUES = {
    "variable": {"TOKEN": "t0ken", "EMPTY": "", "HOME": "/home/me", "A.B": "dotted", "TRICK": "${TOKEN}"},
    "file": {"key.txt": "from a file"},
    "credential": {"key": "from systemd"},
    "supervisor": {"python": "/usr/bin/python"},
}


def resolver(values: Mapping[str, Mapping[str, str]] = VALUES) -> Resolve:
    return lambda reference: values.get(reference.kind, {}).get(reference.name)


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("${TOKEN}", "t0ken"),
        ("${env:TOKEN}", "t0ken"),
        ("{env:TOKEN}", "t0ken"),
        ("${env:A.B}", "dotted"),
        ("${TOKEN:-other}", "t0ken"),
        ("${NONE:-other}", "other"),
        ("${env:NONE:-o:t-her}", "o:t-her"),
        ("${EMPTY:-other}", "other"),
        ("${EMPTY:-}", ""),
        ("${EMPTY}", ""),
        ("${file:-x}", "x"),
        ("${file:key.txt}", "from a file"),
        ("{file:key.txt}", "from a file"),
        ("${cred:key}", "from systemd"),
        ("${userHome}/x", "/home/me/x"),
        ("${supervisor:python}", "/usr/bin/python"),
        ("a ${TOKEN}-{env:TOKEN} b", "a t0ken-t0ken b"),
        ("${TRICK}", "${TOKEN}"),
    ],
)
def test_a_reference_is_replaced(template: str, value: str) -> None:
    assert interpolate(template, resolver()).value == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain",
        "$TOKEN",
        "$",
        "${",
        "${}",
        "{}",
        "${TOKEN",
        "$ {TOKEN}",
        "${1}",
        "${a.b}",
        "${a b}",
        "${env:}",
        "{env:}",
        "{cred:key}",
        "{TOKEN}",
        "${other:thing}",
        '{"json": {"a": 1}}',
        "awk '{print $1}'",
    ],
)
def test_what_is_no_reference_stays_as_it_is(text: str) -> None:
    assert interpolate(text, resolver()) == Text(text, text)
    assert is_literal(text)


@given(st.text(alphabet="abc $:/-\"'\\n"))
def test_text_without_braces_passes_unchanged(text: str) -> None:
    assert interpolate(text, resolver({})).value == text


@given(st.text(alphabet="${}:-envfilcrdTOKN", max_size=30))
def test_every_template_is_literal_or_refers_to_something(template: str) -> None:
    asked: list[Reference] = []

    def resolve(reference: Reference) -> str:
        asked.append(reference)
        return "x"

    try:
        text = interpolate(template, resolve)
    except MissingReferences as error:
        assert {each.reference.kind for each in error.missing} == {"nested"}  # noqa: PT017
    else:
        assert is_literal(template) == (not asked)
        assert text.shown == template


@pytest.mark.parametrize(
    ("template", "trouble"),
    [
        (
            "${ONE}",
            "variable ONE is not set; set it in the daemon's environment or give a default with ${ONE:-...}",
        ),
        ("${ONE}${TWO}${ONE}", "variables ONE and TWO are not set; set them in"),
        ("${cred:one}", "credential one is not there; pass it with LoadCredential=one:PATH in the unit"),
        ("{file:a}{file:b}", "files a and b are not there; create them or correct the name"),
        ("${input:key}", "${input:key} is not supported, because no editor"),
        ("${workspaceFolder}/x", "${workspaceFolder} is not supported"),
        ("${command:x}", "${command:x} is not supported"),
        ("${config:x}", "${config:x} is not supported"),
        ("${A:-${B}}", "a default cannot hold braces, as in ${A:-${"),
        ("${env:A:-{}}", "a default cannot hold braces"),
        ("${ONE} ${cred:two} ${input:x}", "; credential two is not there"),
    ],
)
def test_a_missing_reference_says_what_to_do(template: str, trouble: str) -> None:
    with pytest.raises(MissingReferences) as caught:
        interpolate(template, resolver())

    assert str(caught.value).startswith("cannot fill in the configuration: ")
    assert trouble in str(caught.value)


def test_all_missing_references_are_named_at_once() -> None:
    with pytest.raises(MissingReferences) as caught:
        interpolate("${ONE} ${TOKEN} {file:x} ${cred:y}", resolver())

    assert [each.reference.name for each in caught.value.missing] == ["ONE", "x", "y"]


def test_a_reason_of_the_resolver_is_passed_on() -> None:
    def refuse(reference: Reference) -> str:
        raise Unresolved(f"cannot trust {reference.name}")

    with pytest.raises(MissingReferences, match="cannot trust key"):
        interpolate("{file:key}", refuse)


@pytest.mark.parametrize(
    ("template", "secrets"),
    [
        ("--token=${TOKEN}", {"t0ken"}),
        ("${file:key.txt} ${cred:key}", {"from a file", "from systemd"}),
        ("${NONE:-other}", set()),
        ("${EMPTY}", set()),
        ("${HOME} ${userHome}", set()),
        ("${supervisor:python}", set()),
        ("literal", set()),
    ],
)
def test_what_was_inserted_is_secret_but_for_what_everybody_has(template: str, secrets: set[str]) -> None:
    assert interpolate(template, resolver()).secrets == secrets


def test_a_text_shows_the_template_and_never_the_value() -> None:
    text = interpolate("--token=${TOKEN}", resolver())

    assert f"{text} {text!r} {[text]}".count("--token=${TOKEN}") == 3
    assert "t0ken" not in f"{text} {text!r} {[text]}"
