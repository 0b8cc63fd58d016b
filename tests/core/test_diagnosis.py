"""From facts to suggestions: the first one names the cause that a person would name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.clues import QUOTED_LENGTH
from supervisor.core.diagnosis import Facts, Kind, diagnose
from supervisor.core.facts import (
    Absent,
    Found,
    Lookup,
    NoDirectory,
    NoInterpreter,
    NotExecutable,
    RunEnd,
    missing_variables,
    not_inherited,
)
from supervisor.core.phases import (
    Backoff,
    Idle,
    Killing,
    Phase,
    Ready,
    Starting,
    StopCause,
    Stopped,
    Stopping,
    Unavailable,
)
from supervisor.core.restart import Mode
from supervisor.core.spec import HttpEntry, StdioEntry

READY = Ready(since=0.0)
GONE = Unavailable("")
HERE = Found("/usr/bin/thing")
TIMEOUT = "did not answer within 30 s"
CONNECTED = ("spawned", "heard", "greeted", "listed")


def ended(*stderr: str, code: int | None = None, signal: int | None = None, reason: str = "") -> Facts:
    """A server whose only run ended by itself in this way."""
    how = f"exited with code {code}" if signal is None else f"killed by signal {signal} (NAME)"
    end = RunEnd(how, code, signal, lived=0.2)
    return Facts(
        server="s",
        phase=GONE,
        reason=how + reason,
        lookup=HERE,
        ends=(end,),
        stderr=stderr,
        reached=("spawned",),
    )


@pytest.mark.parametrize("phase", [READY, Idle(), Stopped(), GONE], ids=lambda phase: type(phase).__name__)
def test_a_server_that_is_not_as_its_entry_says_is_told_so_first(phase: Phase) -> None:
    first, *others = diagnose(Facts(server="s", phase=phase, behind="its entry is wrong: x", tools=3))

    assert (first.kind, first.cause) == (
        Kind.BEHIND,
        "It is not as its entry says now: its entry is wrong: x.",
    )
    assert not [each for each in others if "Nothing to do" in each.fix]


def remote(reason: str) -> Facts:
    """A server that could not be reached, for this reason."""
    return Facts(server="s", phase=GONE, reason=reason, remote=True)


def failed(reason: str, *stderr: str, argv: tuple[str, ...] = ("thing",), protocol: str = "auto") -> Facts:
    """A server that we gave up for this reason, and ended ourselves."""
    end = RunEnd("killed by signal 15 (SIGTERM)", signal=15)
    return Facts(
        server="s",
        phase=GONE,
        reason=reason,
        lookup=HERE,
        ends=(end,),
        stderr=stderr,
        argv=argv,
        protocol=protocol,
    )


def absent(name: str) -> Facts:
    return Facts(server="s", phase=GONE, lookup=Absent(name))


def connected(*, tools: int = 0, noise: int = 0, **left_out: int) -> Facts:
    return Facts(server="s", phase=READY, tools=tools, noise=noise, left_out=left_out)


CAUSES = [
    (Kind.BAD_CONFIG, Facts(server="s", phase=GONE, problems=("f: command: must be a string",))),
    (Kind.MISSING_VARIABLE, Facts(server="s", phase=GONE, trouble="A is not set", missing=("A",))),
    (Kind.MISSING_REFERENCE, Facts(server="s", phase=GONE, trouble="file x is not there")),
    (Kind.NOT_FOUND, absent("npx")),
    (Kind.NOT_FOUND, absent("/opt/thing")),
    (Kind.NOT_FOUND, failed("cannot find the command npx on PATH; give its full path")),
    (Kind.ARGUMENTS_IN_COMMAND, absent("npx -y thing")),
    (Kind.NOT_EXECUTABLE, Facts(server="s", phase=GONE, lookup=NotExecutable("/opt/thing"))),
    (Kind.BAD_INTERPRETER, Facts(server="s", phase=GONE, lookup=NoInterpreter("/opt/thing", "node"))),
    (Kind.BAD_INTERPRETER, ended("env: 'node': No such file or directory", code=127)),
    (Kind.BAD_INTERPRETER, ended(code=126)),
    (Kind.BAD_INTERPRETER, failed("cannot start: No such file or directory")),
    (Kind.WRONG_FORMAT, failed("cannot start: Exec format error")),
    (Kind.NO_DIRECTORY, Facts(server="s", phase=GONE, lookup=NoDirectory("/srv/x"))),
    (Kind.REFUSED_BY_SYSTEM, failed("cannot start: Too many open files")),
    (Kind.REFUSED_BY_SYSTEM, failed("cannot start: Cannot allocate memory")),
    (Kind.ECHO, failed("it sends back what it is sent, so it is not an MCP server")),
    (Kind.PROTOCOL, failed("the server speaks only 2031-01-01")),
    (Kind.PROTOCOL, failed("the server refused the handshake: no (-32600)", protocol="2025-11-25")),
    (Kind.BROKEN_LISTING, failed("its tool list repeats the cursor 'x'")),
    (Kind.BROKEN_PIPE, failed("closed its standard output")),
    (Kind.BROKEN_PIPE, failed("wrote a message is longer than 9 bytes (maxLineBytes)")),
    (
        Kind.SLOW_DOWNLOAD,
        failed(TIMEOUT, "npm warn exec The following package was not found", argv=("npx", "x")),
    ),
    (Kind.SLOW_DOWNLOAD, failed(TIMEOUT, "Unable to find image 'x:latest' locally", argv=("docker", "run"))),
    (Kind.SLOW_DOWNLOAD, failed(TIMEOUT, argv=("/usr/local/bin/uvx", "x"))),
    (Kind.FRAMING, failed("broke the framing: no length")),
    (Kind.FRAMING, Facts(server="s", phase=GONE, reason=TIMEOUT, framing="content-length")),
    (Kind.SLOW_DOWNLOAD, failed(TIMEOUT, argv=("sh", "-c", "exec npx x"))),
    (Kind.NO_ANSWER, failed(TIMEOUT, argv=("sleep", "1000"))),
    (Kind.NEEDS_TERMINAL, ended("the input device is not a TTY", code=1)),
    (Kind.PACKAGE_NOT_FOUND, ended("npm error code E404", code=1)),
    (Kind.PACKAGE_NOT_FOUND, ended("npm error could not determine executable to run", code=1)),
    (Kind.MODULE_NOT_FOUND, ended("ModuleNotFoundError: No module named 'mcp'", code=1)),
    (Kind.MODULE_NOT_FOUND, ended("Error: Cannot find module '/srv/index.js'", code=1)),
    (Kind.IN_USE, ended("Error: listen EADDRINUSE: address already in use :::3000", code=1)),
    (Kind.NEEDS_CREDENTIALS, ended("GITHUB_TOKEN environment variable is not set", code=1)),
    (Kind.NEEDS_CREDENTIALS, ended("please provide an API key", code=1)),
    (Kind.NEEDS_CREDENTIALS, ended("HTTP status 401 from https://api.example", code=1)),
    (Kind.NEEDS_CREDENTIALS, failed("the session was refused: HTTP 403")),
    (Kind.PERMISSION, ended("PermissionError: [Errno 13] Permission denied: '/srv/x'", code=1)),
    (Kind.NETWORK, ended("getaddrinfo EAI_AGAIN registry.npmjs.org", code=1)),
    (Kind.NETWORK, remote("cannot be reached: timed out")),
    (Kind.CERTIFICATE, ended("Error: self-signed certificate in certificate chain", code=1)),
    (Kind.CERTIFICATE, remote("cannot be reached: its certificate is not trusted (certificate has expired)")),
    (Kind.UNHEALTHY, failed("unhealthy: did not answer a probe for 10 s; to be tried again")),
    (Kind.NO_ANSWER, remote(TIMEOUT)),
    (Kind.MEMORY, ended("FATAL ERROR: JavaScript heap out of memory", signal=6)),
    (Kind.WRONG_ARGUMENTS, ended("usage: thing [-h] path", code=2)),
    (Kind.KILLED, ended(signal=9)),
    (Kind.KILLED, ended("401 unauthorized", code=137)),
    (Kind.KILLED, ended(signal=15)),
    (Kind.CRASHED, ended(signal=11)),
    (Kind.CRASHED, ended(code=139)),
    (Kind.CRASH_LOOP, ended("Boom", code=1, reason="; crash loop: 5 failures in 300 s")),
    (Kind.EXITED, ended("Boom", "", code=1)),
    (Kind.EXITED_CLEANLY, ended(code=0)),
    (Kind.UNKNOWN, failed("nobody knows")),
    (Kind.STARTING, Facts(server="s", phase=Starting(9.0))),
    (Kind.STOPPING, Facts(server="s", phase=Stopping(9.0, StopCause.REQUESTED, ""))),
    (Kind.STOPPING, Facts(server="s", phase=Killing(9.0, StopCause.REQUESTED, ""))),
    (Kind.IDLE, Facts(server="s", phase=Idle())),
    (Kind.STOPPED, Facts(server="s", phase=Stopped(), reason="stop requested")),
    (Kind.DISABLED, Facts(server="s", phase=Stopped(), enabled=False)),
    (Kind.FINE, connected(tools=2)),
    (Kind.NO_TOOLS, connected()),
    (Kind.REFUSED_BY_POLICY, connected(policy=3)),
    (Kind.FILTERED, connected(filter=3)),
    (Kind.LEFT_OUT, connected(definition=1, collision=2)),
]


@pytest.mark.parametrize(("kind", "facts"), CAUSES)
def test_the_first_suggestion_names_the_cause_and_a_fix(kind: Kind, facts: Facts) -> None:
    first = diagnose(facts)[0]

    assert first.kind == kind, first
    assert first.cause.endswith(".")
    assert first.fix.endswith(".")


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (absent("npx"), "Install Node.js"),
        (absent("uvx"), "Install uv"),
        (absent("docker"), "Install docker"),
        (absent("npx"), "`command -v npx`"),
        (failed("getaddrinfo"), "when inheritEnv names it"),
        (remote("cannot be reached: Connection refused"), "NO_PROXY of the daemon count"),
        (failed("certificate verify failed"), "in env of its entry (NODE_EXTRA_CA_CERTS"),
        (remote("its certificate is not trusted (unable to get local issuer)"), "in caFile of its entry"),
        (remote(TIMEOUT), "its url is where it speaks MCP"),
        (
            failed("unhealthy: did not answer a probe for 10 s; to be tried again"),
            "raise healthInterval in its entry",
        ),
        (failed(TIMEOUT, argv=("npx", "x")), "Raise startTimeout in its entry (it is 30)"),
        (failed("the server speaks only 2031-01-01"), '"2025-11-25" or "2026-07-28"'),
        (failed("it offers none, and protocol is set to x", protocol="x"), 'Remove "protocol": "x"'),
        (Facts(server="s", phase=GONE, trouble="t", missing=("A", "B")), "${A:-value}"),
        (Facts(server="s", phase=Stopped(), enabled=False), "`mcp-supervisor enable s`"),
        (Facts(server="s", phase=Stopped()), "`mcp-supervisor start s`"),
        (connected(policy=1), '"confirm"'),
        (Facts(server="s", phase=Starting(9.0), argv=("npx", "x")), "download its package"),
    ],
)
def test_a_fix_says_exactly_what_to_do(facts: Facts, words: str) -> None:
    assert words in diagnose(facts)[0].fix


INFERRED = (Kind.SLOW_DOWNLOAD, Kind.MODULE_NOT_FOUND, Kind.IN_USE, Kind.NEEDS_CREDENTIALS, Kind.PERMISSION)


@pytest.mark.parametrize("facts", [facts for kind, facts in CAUSES if kind in INFERRED and facts.stderr])
def test_what_is_inferred_from_text_is_not_called_certain(facts: Facts) -> None:
    cause = diagnose(facts)[0].cause

    assert cause.startswith("It looks like")
    assert facts.stderr[-1] in cause


def test_an_exit_is_told_with_its_age_and_its_last_words() -> None:
    cause = diagnose(ended("Boom", "npm error A complete log of this run is in x", " ", code=3))[0].cause

    assert cause == 'It exited with code 3 after 0.2 s, before it was ready; its last line on stderr: "Boom".'


def test_of_a_run_whose_age_is_unknown_none_is_told() -> None:
    end = RunEnd("exited with code 3", 3)

    cause = diagnose(Facts(server="s", phase=GONE, reason=end.reason, ends=(end,)))[0].cause

    assert cause == "It exited with code 3, before it was ready, and stderr is empty."


def test_a_server_that_talks_on_stdout_instead_of_answering_is_told_so() -> None:
    facts = Facts(server="s", phase=GONE, reason=TIMEOUT, noise=1, samples=("Listening on port 80",))

    assert diagnose(facts)[0].kind == Kind.NOISE
    assert "1 line, such as" in diagnose(facts)[0].cause


def test_noise_beside_a_failing_exit_is_mentioned_after_it() -> None:
    end = RunEnd("exited with code 1", 1)
    facts = Facts(server="s", phase=GONE, reason=end.reason, ends=(end,), noise=2, samples=("hello",))

    assert [each.kind for each in diagnose(facts)] == [Kind.EXITED, Kind.NOISE]


def test_noise_that_looks_like_headers_is_a_matter_of_framing() -> None:
    facts = Facts(server="s", phase=READY, tools=1, noise=9, samples=("Content-Length: 80",))

    fine, noise = diagnose(facts)

    assert (fine.kind, noise.kind) == (Kind.FINE, Kind.NOISE)
    assert '"content-length"' in noise.fix


def test_a_connected_server_with_bad_tools_is_fine_and_the_bad_tools_are_mentioned() -> None:
    assert [each.kind for each in diagnose(connected(tools=4, noise=1, definition=1))] == [
        Kind.FINE,
        Kind.NOISE,
        Kind.LEFT_OUT,
    ]


@pytest.mark.parametrize(
    ("code", "restart", "advice"),
    [
        (1, "never", '"restart": "on-failure"'),
        (0, "never", '"restart": "always"'),
        (0, "on-failure", '"restart": "always"'),
        (1, "on-failure", "restarts are on"),
        (0, "always", "restarts are on"),
    ],
)
def test_one_that_ended_in_service_is_told_how_it_can_be_restarted(
    code: int, restart: Mode, advice: str
) -> None:
    end = RunEnd(f"exited with code {code}", code)
    facts = Facts(
        server="s",
        phase=Backoff(9.0),
        reason=f"{end.reason}; to be tried again, failure 1 of at most 5",
        ends=(end,),
        reached=CONNECTED,
        restart=restart,
        stderr=("HTTP 401 unauthorized",),
    )

    first, second = diagnose(facts)

    assert (first.kind, second.kind) == (Kind.ENDED_IN_SERVICE, Kind.NEEDS_CREDENTIALS)
    assert advice in first.fix


def test_a_variable_that_cannot_be_inherited_is_mentioned_last() -> None:
    end = RunEnd("exited with code 1", 1)
    facts = Facts(server="s", phase=GONE, reason=end.reason, ends=(end,), not_inherited=("A", "B"))

    assert "A and B" in diagnose(facts)[-1].cause


def test_a_new_start_tells_of_the_run_before_and_of_what_the_server_has_said_so_far() -> None:
    facts = Facts(
        server="s", phase=Starting(9.0), ends=(RunEnd("exited with code 1", 1),), stderr=("401 Unauthorized",)
    )

    starting, credentials = diagnose(facts)

    assert "exited with code 1" in starting.cause
    assert credentials.kind == Kind.NEEDS_CREDENTIALS


def test_a_signal_of_our_own_is_no_cause() -> None:
    assert Kind.KILLED not in {each.kind for each in diagnose(failed(TIMEOUT))}


def test_a_javascript_syntax_error_is_no_sign_of_missing_credentials() -> None:
    facts = ended("SyntaxError: Invalid or unexpected token", code=1)

    assert diagnose(facts)[0].kind == Kind.EXITED


def test_a_quoted_line_cannot_act_on_a_terminal_and_is_not_too_long() -> None:
    cause = diagnose(ended("\x1b[2J" + "x" * 9_000, code=1))[0].cause

    assert "\x1b" not in cause
    assert len(cause) < QUOTED_LENGTH + 200


LOOKUPS: list[Lookup | None] = [
    None,
    HERE,
    Absent("npx"),
    NotExecutable("/x"),
    NoInterpreter("/x", "node"),
    NoDirectory("/x"),
]
PHASES: list[Phase] = [
    Stopped(),
    Idle(),
    Starting(1.0),
    READY,
    Stopping(1.0, StopCause.IDLE, ""),
    Killing(1.0, StopCause.LOST, ""),
    Backoff(1.0),
    GONE,
]
COUNTS = st.integers(0, 300)
CODES = st.none() | COUNTS
TEXTS = st.text(max_size=40)


@given(
    facts=st.builds(
        Facts,
        server=TEXTS,
        phase=st.sampled_from(PHASES),
        reason=TEXTS | st.sampled_from([facts.reason for _, facts in CAUSES]),
        trouble=st.none() | TEXTS,
        lookup=st.sampled_from(LOOKUPS),
        ends=st.lists(st.builds(RunEnd, TEXTS, CODES, CODES), max_size=2).map(tuple),
        stderr=st.lists(TEXTS, max_size=3).map(tuple),
        noise=COUNTS,
        tools=COUNTS,
        left_out=st.dictionaries(
            st.sampled_from(["policy", "filter", "collision", "definition"]), st.integers(1, 9)
        ),
    )
)
def test_whatever_is_known_there_is_advice_and_no_kind_of_it_comes_twice(facts: Facts) -> None:
    kinds = [suggestion.kind for suggestion in diagnose(facts)]

    assert kinds
    assert len(set(kinds)) == len(kinds)


def test_the_missing_variables_of_a_process_are_those_without_a_value_or_a_default() -> None:
    entry = StdioEntry(
        command="${TOOLS}/run",
        args=("${SET}", "${UNSET}", "${OTHER:-x}", "${file:/nowhere}", "${input:ask}"),
        env={"KEY": "${SECRET}", "AGAIN": "${UNSET}"},
        cwd="${PLACE}",
    )

    assert missing_variables(entry, {"SET": "1"}) == ("TOOLS", "UNSET", "SECRET", "PLACE")


def test_the_missing_variables_of_an_http_server_are_in_its_address_and_headers() -> None:
    entry = HttpEntry(url="https://x.example/${A}", headers={"Authorization": "Bearer ${B}"})

    assert missing_variables(entry, {}) == ("A", "B")
    assert not_inherited(entry, {}) == ()


def test_variables_to_inherit_that_are_not_there_are_named() -> None:
    entry = StdioEntry(command="x", inherit_env=("HERE", "GONE"))

    assert missing_variables(entry, {}) == ()
    assert not_inherited(entry, {"HERE": ""}) == ("GONE",)
