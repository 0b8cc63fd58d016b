"""A server as it will be started or reached, its trouble, and its secrets."""

from collections.abc import Mapping

import pytest

from supervisor.core.interpolate import Reference, Text, Unresolved
from supervisor.core.servers import (
    Endpoint,
    Launch,
    ServerSpec,
    Surroundings,
    child_environment,
    expand_home,
    specify,
)
from supervisor.core.spec import Entry, HttpEntry, StdioEntry

ENVIRON = {"HOME": "/home/me", "PATH": "/bin", "TOKEN": "t0ken", "LINES": "a\nb", "NUL": "a\0b", "EMPTY": ""}
ENVIRON |= {"SITE": "https://x.example"}


def resolve(reference: Reference) -> str | None:
    return ENVIRON.get(reference.name)


def read_env_file(path: str) -> Mapping[str, str]:
    if path != "/etc/app/secrets.env":
        raise Unresolved(f"envFile {path} is not there")
    return {"A": "from file", "B": "b"}


def specified(entry: Entry, *, enabled: bool | None = None) -> ServerSpec:
    surroundings = Surroundings("/etc/app", ENVIRON, resolve, read_env_file)
    return specify("a", entry, surroundings, source="/etc/app/mcp.json", shadows=("other",), enabled=enabled)


def launch(entry: StdioEntry) -> Launch:
    spec = specified(entry)
    assert isinstance(spec.target, Launch), spec.trouble
    return spec.target


def endpoint(entry: HttpEntry) -> Endpoint:
    spec = specified(entry)
    assert isinstance(spec.target, Endpoint), spec.trouble
    return spec.target


def test_a_launch_has_every_reference_filled_in() -> None:
    found = launch(
        StdioEntry(command="run", args=("--key", "${TOKEN}"), env={"K": "${TOKEN}"}, cwd="${HOME}/x")
    )

    assert [text.value for text in (found.command, *found.args)] == ["run", "--key", "t0ken"]
    assert found.env["K"].value == "t0ken"
    assert found.cwd == Text("/home/me/x", "${HOME}/x")


@pytest.mark.parametrize(
    ("written", "found"),
    [(None, None), ("ca.pem", "/etc/app/ca.pem"), ("~/ca.pem", "/home/me/ca.pem"), ("/ca.pem", "/ca.pem")],
)
def test_certificates_are_found_from_the_configuration_file(written: str | None, found: str | None) -> None:
    assert endpoint(HttpEntry(url="https://x", ca_file=written)).ca_file == found


def test_an_endpoint_has_every_reference_filled_in() -> None:
    found = endpoint(HttpEntry(url="https://x/${TOKEN}", headers={"Authorization": "Bearer ${TOKEN}"}))

    assert found.url.value == "https://x/t0ken"
    assert found.headers["Authorization"].value == "Bearer t0ken"


@pytest.mark.parametrize(
    ("command", "cwd", "value"),
    [
        ("npx", None, "npx"),
        ("npx", "work", "npx"),
        ("/bin/cat", "work", "/bin/cat"),
        ("./serve", None, "/etc/app/serve"),
        ("bin/serve", "work", "/etc/app/work/bin/serve"),
        ("./serve", "/srv", "/srv/serve"),
        ("~/bin/serve", "/srv", "/home/me/bin/serve"),
    ],
)
def test_a_bare_command_is_left_for_path_and_any_other_made_absolute(
    command: str, cwd: str | None, value: str
) -> None:
    assert launch(StdioEntry(command=command, cwd=cwd)).command == Text(value, command)


@pytest.mark.parametrize(("cwd", "value"), [("x", "/etc/app/x"), ("~", "/home/me"), ("/srv", "/srv")])
def test_a_working_directory_starts_at_the_configuration(cwd: str, value: str) -> None:
    found = launch(StdioEntry(command="x", cwd=cwd)).cwd

    assert found is not None
    assert found.value == value


@pytest.mark.parametrize(
    ("path", "home", "expanded"),
    [("~/x", "/h", "/h/x"), ("~x", "/h", "~x"), ("a/~", "/h", "a/~"), ("~/x", None, "~/x"), ("~", "", "~")],
)
def test_only_our_own_home_is_expanded(path: str, home: str | None, expanded: str) -> None:
    assert expand_home(path, home) == expanded


def test_env_wins_over_the_env_file() -> None:
    found = launch(StdioEntry(command="x", env_file="secrets.env", env={"A": "own"}))

    assert {name: text.value for name, text in found.env.items()} == {"A": "own", "B": "b"}


@pytest.mark.parametrize(
    ("entry", "trouble"),
    [
        (
            StdioEntry(command="x", args=("${NONE}",)),
            (
                "variable NONE is not set; set it in the daemon's environment "
                "or give a default with ${NONE:-...}"
            ),
        ),
        (
            StdioEntry(command="${ONE}", cwd="${TWO}", env={"A": "${THREE}"}),
            "variables TWO, ONE and THREE are",
        ),
        (StdioEntry(command="x", env_file="none.env"), "envFile /etc/app/none.env is not there"),
        (StdioEntry(command="${NONE}", env_file="none.env"), "or give a default with ${NONE:-...}; envFile"),
        (StdioEntry(command="${EMPTY}"), "command is empty once ${EMPTY} is filled in"),
        (StdioEntry(command="x", args=("${NUL}",)), "an argument holds a NUL character once it is filled in"),
        (
            StdioEntry(command="x", env={"A": "${NUL}"}),
            "variable A holds a NUL character once it is filled in",
        ),
        (HttpEntry(url="${NONE}"), "variable NONE is not set"),
        (
            HttpEntry(url="${TOKEN}"),
            "url must be an address such as https://example.com/mcp once it is filled in",
        ),
        (HttpEntry(url="https://x", headers={"A": "${LINES}"}), "header A holds a line break"),
        (HttpEntry(url="${input:url}"), "${input:url} is not supported"),
        (
            StdioEntry(command="x", roots=("${SITE}",)),
            "a root must be a path, or an address such as file:///home/me/project once it is filled in",
        ),
    ],
)
def test_what_cannot_be_filled_in_is_trouble_and_nothing_is_started(entry: Entry, trouble: str) -> None:
    spec = specified(entry)

    assert trouble in (spec.trouble or "")
    assert spec.target is None


def test_a_disabled_server_is_not_filled_in() -> None:
    spec = specified(StdioEntry(command="${NONE}", enabled=False))

    assert (spec.target, spec.trouble, spec.roots, spec.secrets) == (None, None, None, frozenset())


@pytest.mark.parametrize(
    ("written", "address"),
    [
        ("/srv/a b", "file:///srv/a%20b"),
        ("~/work", "file:///home/me/work"),
        ("data", "file:///etc/app/data"),
        ("../other/./x/", "file:///etc/other/x"),
        ("${HOME}/x", "file:///home/me/x"),
        ("file:///srv/as%20it%20is", "file:///srv/as%20it%20is"),
    ],
)
def test_a_root_becomes_an_address(written: str, address: str) -> None:
    (root,) = specified(StdioEntry(command="x", roots=(written,))).roots or ()

    assert root.value == address


def test_no_roots_are_not_the_same_as_none_named() -> None:
    assert specified(StdioEntry(command="x")).roots is None
    assert specified(HttpEntry(url="https://x", roots=())).roots == ()


@pytest.mark.parametrize(
    ("written", "operator", "enabled"),
    [(True, None, True), (False, None, False), (True, False, False), (False, True, True), (True, True, True)],
)
def test_the_word_of_an_operator_counts_more_than_that_of_the_file(
    written: bool, operator: bool | None, enabled: bool
) -> None:
    spec = specified(StdioEntry(command="${TOKEN}", enabled=written), enabled=operator)

    assert (spec.entry.enabled, spec.overridden) == (enabled, operator is not None)
    assert (spec.target is not None) is enabled


def test_a_server_that_an_operator_disabled_is_not_filled_in() -> None:
    assert specified(StdioEntry(command="${NONE}"), enabled=False).trouble is None


def test_a_server_that_an_operator_enabled_can_be_in_trouble() -> None:
    spec = specified(StdioEntry(command="${NONE}", enabled=False), enabled=True)

    assert "variable NONE is not set" in (spec.trouble or "")
    assert spec.overridden


@pytest.mark.parametrize(
    ("entry", "secrets"),
    [
        (StdioEntry(command="x", args=("--key=${TOKEN}", "plain")), {"t0ken"}),
        (StdioEntry(command="x", env={"A": "literal", "E": ""}), {"literal"}),
        (StdioEntry(command="x", env={"LANG": "C", "WORK": "${HOME}", "DIR": "${HOME}/x"}), {"/home/me/x"}),
        (StdioEntry(command="x", env={"PATH": "${HOME}/bin:${TOKEN}"}), {"t0ken"}),
        (StdioEntry(command="x", env_file="secrets.env"), {"from file", "b"}),
        (StdioEntry(command="x", cwd="/srv/${TOKEN}"), {"t0ken"}),
        (StdioEntry(command="x", roots=("/srv/${TOKEN}",)), {"t0ken"}),
        (StdioEntry(command="x", env={"A": "literal", "B": "${TOKEN}"}, enabled=False), {"literal"}),
        (StdioEntry(command="${NONE}", env={"A": "literal", "PATH": "/x"}), {"literal"}),
        (HttpEntry(url="${NONE}", headers={"A": "literal"}), {"literal"}),
        (HttpEntry(url="https://x/${TOKEN}", headers={"A": "Bearer ${TOKEN}"}), {"t0ken", "Bearer t0ken"}),
    ],
)
def test_every_inserted_value_and_every_variable_and_header_is_secret(
    entry: Entry, secrets: set[str]
) -> None:
    assert specified(entry).secrets == secrets


def test_a_secret_that_is_written_twice_is_shown_nowhere() -> None:
    found = launch(
        StdioEntry(command="/l1teral/x", args=("--key=l1teral",), env={"A": "l1teral"}, cwd="/l1teral")
    )

    assert [str(text) for text in (found.command, *found.args, found.cwd)] == ["/***/x", "--key=***", "/***"]
    assert found.args[0].value == "--key=l1teral"
    assert str(endpoint(HttpEntry(url="https://x/l1teral", headers={"A": "l1teral"})).url) == "https://x/***"


@pytest.mark.parametrize(
    "entry",
    [
        StdioEntry(command="x", args=("${TOKEN}",), env={"A": "${TOKEN}", "B": "l1teral"}, cwd="/${TOKEN}"),
        HttpEntry(url="https://x/${TOKEN}", headers={"A": "${TOKEN}", "B": "l1teral"}),
        StdioEntry(command="x", env_file="secrets.env"),
    ],
)
def test_no_secret_is_in_the_repr_of_a_server(entry: Entry) -> None:
    shown = repr(specified(entry))

    assert "t0ken" not in shown
    assert "l1teral" not in shown
    assert "from file" not in shown


def test_a_child_gets_the_usual_few_variables_what_it_inherits_and_its_own() -> None:
    environ = {
        "HOME": "/h",
        "PATH": "/bin",
        "LC_ALL": "C",
        "XDG_CACHE_HOME": "/cache",
        "NPM_CONFIG_CACHE": "/cache/npm",
        "SECRET": "no",
        "WANTED": "yes",
        "NOTIFY_SOCKET": "/n",
        "LISTEN_FDS": "1",
        "WATCHDOG_USEC": "1",
        "CREDENTIALS_DIRECTORY": "/c",
    }
    names = ("WANTED", "ABSENT", "NOTIFY_SOCKET", "LISTEN_FDS", "WATCHDOG_USEC", "CREDENTIALS_DIRECTORY")
    started = Launch(Text("x", "x"), (), {"HOME": Text("/own", "***"), "A": Text("1", "***")}, None, names)

    assert child_environment(started, environ) == {
        "HOME": "/own",
        "PATH": "/bin",
        "LC_ALL": "C",
        "XDG_CACHE_HOME": "/cache",
        "NPM_CONFIG_CACHE": "/cache/npm",
        "WANTED": "yes",
        "A": "1",
    }
