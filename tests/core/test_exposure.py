"""Secrets among the arguments of a process: what is noticed, and what is never said."""

import pytest

from supervisor.core.exposure import exposed
from supervisor.core.servers import BadServer, ServerSpec
from supervisor.core.spec import Entry, HttpEntry, StdioEntry

FILE = "/etc/mcp.json"


def server(entry: Entry) -> ServerSpec:
    return ServerSpec("files", entry, None, None, FILE, (), frozenset())


def notices(*arguments: str) -> list[str]:
    return [str(each) for each in exposed([server(StdioEntry(command="x", args=arguments))])]


@pytest.mark.parametrize(
    ("arguments", "place", "name"),
    [
        (("--token=abc",), 0, "--token"),
        (("-v", "--api-key", "abc"), 2, "--api-key"),
        (("--dbPassword", "abc"), 1, "--dbPassword"),
        (("--header", "Authorization: Bearer abc"), 1, "Authorization"),
        (("--header", "X-Api-Key:abc"), 1, "X-Api-Key"),
        (("--env", "A=${GITHUB_TOKEN}"), 1, "${GITHUB_TOKEN}"),
        (("${env:OPENAI_API_KEY:-none}",), 0, "${env:OPENAI_API_KEY:-none}"),
        (("{env:PGPASSWORD}",), 0, "{env:PGPASSWORD}"),
        (("${cred:github}",), 0, "${cred:github}"),
        (("{file:/run/key}",), 0, "{file:/run/key}"),
        (("--url=https://x/?k=${file:key}",), 0, "${file:key}"),
    ],
)
def test_a_secret_is_noticed_by_its_name(arguments: tuple[str, ...], place: int, name: str) -> None:
    said = f"shows a secret ({name}) to whoever lists processes; pass it in env instead"

    assert notices(*arguments) == [f"{FILE}: server files, args[{place}]: {said}"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--max-tokens", "4000"),
        ("--token-limit=4000",),
        ("--password-file", "/run/secrets/db"),
        ("--token",),
        ("--token", "--verbose"),
        ("--token=", "x"),
        ("--key", "abc"),
        ("${HOME}/token.txt", "/srv/secret"),
        ("${supervisor:python}", "-m", "server", "password: "),
    ],
)
def test_what_only_sounds_like_a_secret_is_not(arguments: tuple[str, ...]) -> None:
    assert notices(*arguments) == []


def test_the_value_is_never_said() -> None:
    said = " ".join(notices("--token=s3cret", "--secret", "s3cret", "Authorization: s3cret"))

    assert "s3cret" not in said


def test_only_processes_have_arguments() -> None:
    remote = server(HttpEntry(url="https://x.example/?token=abc"))

    assert list(exposed([remote, BadServer("worse", FILE, (), ())])) == []
