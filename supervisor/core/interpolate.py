"""References in configuration strings: `${NAME}` and its relatives.

| written                       | stands for                                                          |
|-------------------------------|---------------------------------------------------------------------|
| `${NAME}` `${env:NAME}` `{env:NAME}` | a variable of the daemon's environment                       |
| `${NAME:-default}`            | the same, or the default when it is unset or empty                  |
| `${file:PATH}` `{file:PATH}`  | the content of a file, without the line break at its end            |
| `${cred:NAME}`                | a credential that systemd passed, below `$CREDENTIALS_DIRECTORY`    |
| `${userHome}`                 | `$HOME`, as Cursor spells it                                        |
| `${supervisor:python}`        | the interpreter that runs the daemon; the only one that is no secret |

`${input:…}`, `${command:…}`, `${config:…}` and `${workspaceFolder}` need an editor and are refused in
words. Every other `$` and `{` is text and stays as it is. A value is inserted once: what it holds is never
read as a reference again. A default is literal text without braces.

What a reference stands for is asked of a function that the caller gives; nothing here reads anything.
"""

import re
from collections.abc import Callable, Iterable
from typing import Literal, assert_never

from msgspec import Struct, field
from typing_extensions import override

from supervisor.core.problems import listed
from supervisor.errors import BadConfig

PUBLIC_VARIABLES = frozenset(
    {
        *("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"),
        # Where uvx and npx keep what they download; npm does not heed the first.
        *("XDG_CACHE_HOME", "NPM_CONFIG_CACHE"),
    }
)
"""Variables that every child gets anyway; their values are no secrets."""

Kind = Literal["variable", "file", "credential", "supervisor", "editor", "nested"]

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_REFERENCE = re.compile(
    rf"""
      (?P<nested> \$\{{(?:env:)?{_NAME}:-[^{{}}]*\{{ )
    | \$\{{(?P<body>[^{{}}]+)\}}
    | \{{(?P<bare>(?:env|file):[^{{}}]+)\}}
    """,
    re.VERBOSE,
)
_VARIABLE = re.compile(rf"(?:env:)?(?P<name>{_NAME})(?::-(?P<default>.*))?", re.DOTALL)
_SCHEMES: dict[str, Kind] = {
    "env": "variable",
    "file": "file",
    "cred": "credential",
    "supervisor": "supervisor",
    "input": "editor",
    "command": "editor",
    "config": "editor",
    "workspaceFolder": "editor",
}
_EDITOR_NAMES = frozenset({"workspaceFolder", "workspaceFolderBasename", "workspaceRoot"})


class Text(Struct, frozen=True):
    """A string whose value is not for people: `str()` and `repr()` give it as it was written."""

    value: str
    shown: str
    secrets: frozenset[str] = field(default=frozenset())
    """What was inserted and must not be seen anywhere."""

    @override
    def __str__(self) -> str:
        return self.shown

    @override
    def __repr__(self) -> str:
        return f"Text({self.shown!r})"


class Reference(Struct, frozen=True):
    kind: Kind
    name: str
    written: str
    default: str | None = None


Resolve = Callable[[Reference], str | None]
"""The value of a reference of kind variable, file, credential or supervisor; None when there is none."""


class Unresolved(BadConfig):
    """A reference has no value for a reason of its own; raised by a `Resolve`."""


class Missing(Struct, frozen=True):
    """A reference without a value; `reason` is empty when the thing is simply not there."""

    reference: Reference
    reason: str = ""


class MissingReferences(BadConfig):
    """Some references have no value; names all of them."""

    def __init__(self, missing: Iterable[Missing]) -> None:
        self.missing = tuple(missing)
        super().__init__(f"cannot fill in the configuration: {trouble(self.missing)}")


def interpolate(template: str, resolve: Resolve) -> Text:
    """The template with every reference replaced.

    Raises:
        MissingReferences: At least one has no value.
    """
    missing: list[Missing] = []
    secrets: set[str] = set()

    def replacement(match: re.Match[str]) -> str:
        reference = _reference(match)
        if reference is None:
            return match[0]
        found = _look_up(reference, resolve)
        if isinstance(found, Missing):
            missing.append(found)
            return ""
        if found != reference.default and not _is_public(reference):
            secrets.add(found)
        return found

    value = _REFERENCE.sub(replacement, template)
    if missing:
        raise MissingReferences(missing)
    return Text(value, template, frozenset(secrets - {""}))


def is_literal(template: str) -> bool:
    """Whether the template holds no reference."""
    return all(_reference(match) is None for match in _REFERENCE.finditer(template))


def editor_references(template: str) -> tuple[str, ...]:
    """The references, as written, that only an editor can fill in."""
    references = (_reference(match) for match in _REFERENCE.finditer(template))
    return tuple(each.written for each in references if each is not None and each.kind == "editor")


def _reference(match: re.Match[str]) -> Reference | None:
    """The reference that was matched, or None for text that only looks like one."""
    written, body = match[0], match["body"] or match["bare"]
    if body is None:
        return Reference("nested", written, written)
    if body in _EDITOR_NAMES:
        return Reference("editor", body, written)
    if body == "userHome":
        return Reference("variable", "HOME", written)
    if variable := _VARIABLE.fullmatch(body):
        return Reference("variable", variable["name"], written, variable["default"])
    scheme, _, name = body.partition(":")
    return Reference(_SCHEMES[scheme], name, written) if name and scheme in _SCHEMES else None


def _look_up(reference: Reference, resolve: Resolve) -> str | Missing:
    match reference.kind:
        case "nested":
            return Missing(reference, f"a default cannot hold braces, as in {reference.written}")
        case "editor":
            return Missing(
                reference,
                f"{reference.written} is not supported, because no editor is there to fill it in; "
                "write the value, or ${NAME} for a variable of the daemon's environment",
            )
        case "variable" | "file" | "credential" | "supervisor":
            return _ask(reference, resolve)
    assert_never(reference.kind)


def _ask(reference: Reference, resolve: Resolve) -> str | Missing:
    try:
        found = resolve(reference)
    except Unresolved as error:
        return Missing(reference, str(error))
    if reference.default is not None:
        return found or reference.default
    return Missing(reference) if found is None else found


def _is_public(reference: Reference) -> bool:
    return reference.kind == "supervisor" or (
        reference.kind == "variable" and reference.name in PUBLIC_VARIABLES
    )


def trouble(missing: Iterable[Missing]) -> str:
    """Everything that is missing and what to do about it, each thing once."""
    reasons: dict[str, None] = {}
    absent: dict[Kind, dict[str, None]] = {}
    for each in missing:
        if each.reason:
            reasons[each.reason] = None
        else:
            absent.setdefault(each.reference.kind, {})[each.reference.name] = None
    return "; ".join([*(_absence(kind, list(names)) for kind, names in absent.items()), *reasons])


def _absence(kind: Kind, names: list[str]) -> str:
    several = len(names) > 1
    which, are, them = listed(names, joint="and"), "are" if several else "is", "them" if several else "it"
    plural = "s" if several else ""
    match kind:
        case "variable":
            return (
                f"variable{plural} {which} {are} not set; set {them} in the daemon's environment "
                f"or give a default with ${{{names[0]}:-...}}"
            )
        case "credential":
            return (
                f"credential{plural} {which} {are} not there; "
                f"pass {them} with LoadCredential={names[0]}:PATH in the unit"
            )
        case _:
            return f"{kind}{plural} {which} {are} not there; create {them} or correct the name"
