"""HTTP servers that mean ill, or nothing at all: what they do to one request stays with that request."""

from pathlib import Path
from typing import cast

import msgspec
import pytest

from supervisor.errors import InvalidParams, Outcome
from supervisor.runtime.httpanswers import AT_ONCE
from supervisor.runtime.httpdoor import Patience
from tests.runtime.http_support import opened_at, serving, sockets, staged_at, told
from tests.runtime.support import Asked, until

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "asyncio", {"use_uvloop": True}


# Sessions that are said to be lost.


@pytest.mark.parametrize(
    "answer",
    [
        "400,payment booked, but the database session was closed",
        "400,Invalid session",
        "404,no such user",
        "404,Session not found",
    ],
)
async def test_a_call_that_was_answered_by_its_number_is_never_repeated(answer: str, tmp_path: Path) -> None:
    with serving(tmp_path, "--era", "legacy", "--fault", f"after_the_fact:{answer}") as served:
        async with opened_at(served) as stage:
            asked = await stage.call("echo", text="hello")
            await stage.call("echo", text="again")

            assert told(asked) == "refused: -32050"
            assert b"\n" not in bytes(cast("msgspec.Raw", asked.told[0]))
            assert len(served.ran("echo")) == 2
            assert len(served.heard("initialize")) == 1


async def test_a_session_that_is_said_to_be_lost_by_number_is_renewed_for_the_next_call(
    tmp_path: Path,
) -> None:
    with serving(tmp_path, "--era", "legacy", "--mute", "--fault", "forget:named", "--times", 1) as served:
        async with opened_at(served) as stage:
            assert told(await stage.call("echo", text="hello")) == "refused: -32001"

            await until(lambda: len(served.heard("initialize")) == 2)

            assert told(await stage.call("echo", text="again")) == "answered: again"


@pytest.mark.parametrize("status", ["400", "404"])
async def test_a_method_that_a_server_does_not_know_costs_no_session(status: str, tmp_path: Path) -> None:
    with serving(tmp_path, "--era", "legacy", "--fault", f"rpc_error:{status},-32601") as served:
        async with opened_at(served) as stage:
            assert told(await stage.call("echo")) == "refused: -32601"

            assert len(served.heard("initialize")) == 1


async def test_a_session_is_renewed_to_the_end_though_the_call_that_met_its_loss_is_given_up(
    tmp_path: Path,
) -> None:
    ready = tmp_path / "ready"
    fault = ("--fault", f"forget_and_dawdle:{ready}", "--times", 1)
    with serving(tmp_path, "--era", "legacy", "--mute", *fault) as served:
        async with opened_at(served) as stage:
            number, given_up = stage.ask("echo")
            await until(lambda: len(served.heard("initialize")) == 2)
            _, patient = stage.ask("echo", text="patient")

            assert not stage.run.talk.wire.has_left(number)
            stage.run.talk.wire.forget(number)
            ready.touch()

            await until(lambda: patient.told)
            assert told(patient) == "answered: patient"
            assert len(served.ran("echo")) == 1
            assert len(served.heard("initialize")) == len(served.heard("notifications/initialized")) == 2
            assert given_up.told == []


# Questions of the server's own.


async def test_a_server_that_asks_without_end_gets_a_few_answers_at_a_time(tmp_path: Path) -> None:
    fault = ("--fault", "curious:2000", "--at", "GET")
    with serving(tmp_path, "--era", "legacy", *fault) as served:
        async with opened_at(served, patience=Patience()) as stage:
            before = sockets()

            await until(lambda: "extra0" in stage.listings[-1] and len(served.heard("answer")) >= AT_ONCE)
            assert told(await stage.call("echo", text="hello")) == "answered: hello"

            assert len(served.heard("answer")) == AT_ONCE
            assert sockets() <= before + AT_ONCE + 2


async def test_many_questions_at_once_are_all_answered(tmp_path: Path) -> None:
    with serving(tmp_path, "--era", "legacy") as served:
        async with opened_at(served, patience=Patience()) as stage:
            calls = [stage.ask("ask_back", method="ping")[1] for _ in range(3 * AT_ONCE)]
            await until(lambda: all(asked.told for asked in calls))

            assert {told(asked) for asked in calls} == {"answered: {}"}


# The stream on which the server speaks.


async def test_an_event_that_is_too_large_breaks_the_stream_and_not_the_run(tmp_path: Path) -> None:
    fault = ("--fault", "huge_event:2000000", "--at", "GET", "--times", 1)
    with serving(tmp_path, "--era", "legacy", *fault) as served:
        async with opened_at(served) as stage:
            await until(lambda: len(served.heard("GET")) == 2)

            assert told(await stage.call("echo", text="hello")) == "answered: hello"
            assert stage.end is None
            assert stage.listings


async def test_a_message_on_the_stream_that_we_stumble_over_costs_no_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fault = ("--fault", "curious:1", "--at", "GET", "--times", 1)
    with serving(tmp_path, "--era", "legacy", *fault) as served:
        async with staged_at(served) as stage:
            stage.run.talk.wire.answer = stage.listings.remove  # type: ignore[assignment]
            await until(lambda: len(served.heard("GET")) == 2)

            assert "in a way nobody thought of" in caplog.text
            assert told(await stage.call("echo", text="hello")) == "answered: hello"


@pytest.mark.parametrize("status", ["401", "403", "429,retry-after=30"])
async def test_a_server_that_denies_its_stream_alone_is_talked_with_all_the_same(
    status: str, tmp_path: Path
) -> None:
    fault = ("--fault", f"status:{status}", "--at", "GET")
    with serving(tmp_path, "--era", "legacy", *fault) as served:
        async with opened_at(served) as stage:
            await until(lambda: served.heard("GET"))

            for text in ("one", "two"):
                assert told(await stage.call("echo", text=text)) == f"answered: {text}"
            assert len(served.heard("GET")) == 1
            assert stage.end is None


async def test_a_stream_that_is_not_found_costs_no_session_that_posts_still_find(tmp_path: Path) -> None:
    with serving(tmp_path, "--era", "legacy", "--fault", "status:404", "--at", "GET") as served:
        async with opened_at(served) as stage:
            await until(lambda: served.heard("ping"))
            assert told(await stage.call("echo", text="hello")) == "answered: hello"

            assert len(served.heard("GET")) == 1
            assert len(served.heard("initialize")) == 1


async def test_a_session_that_is_given_up_is_ended(tmp_path: Path) -> None:
    fault = ("--fault", "status:404", "--at", "tools/call", "--times", 1)
    with serving(tmp_path, "--era", "legacy", "--mute", *fault) as served:
        async with opened_at(served) as stage:
            given_up = stage.run.talk.wire.head.session_id
            assert told(await stage.call("echo", text="hello")) == "answered: hello"

            (farewell,) = await until(lambda: served.heard("DELETE"))
            assert farewell["mcp-session-id"] == given_up


@pytest.mark.parametrize("status", ["401", "429,retry-after=30"])
async def test_an_answer_that_may_not_be_resumed_is_lost_and_costs_nobody_else(
    status: str, tmp_path: Path
) -> None:
    with serving(tmp_path, "--era", "legacy", "--fault", f"denied:{status}", "--times", 1) as served:
        async with opened_at(served) as stage:
            assert told(await stage.call("echo")).startswith("lost: broke its answer off and does not resume")
            assert told(await stage.call("echo", text="again")) == "answered: again"
            assert stage.end is None


# What a server would have us keep.


async def test_what_follows_a_packed_answer_is_not_waited_for(tmp_path: Path) -> None:
    with serving(tmp_path, "--fault", "packed_tail", "--times", 1) as served:
        async with opened_at(served) as stage:
            assert told(await stage.call("echo")) == "answered: ok"

            assert told(await stage.call("echo", text="again")) == "answered: again"


async def test_no_cookie_is_kept(tmp_path: Path) -> None:
    with serving(tmp_path, "--fault", "cookies:10") as served:
        async with opened_at(served) as stage:
            await stage.call("echo")

            assert told(await stage.call("echo")) == "answered: none"


async def test_a_call_whose_arguments_fit_into_no_header_is_rejected_and_not_sent(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(tmp_path, "--era", "modern") as served:
        async with opened_at(served) as stage:
            asked = Asked()
            stage.run.talk.wire.call(b'"echo"', msgspec.Raw(b'{"region":1e400}'), b"", asked)
            await until(lambda: asked.told)

            (problem,) = asked.told
            assert isinstance(problem, InvalidParams)
            assert problem.data["outcome"] == Outcome.REJECTED
            assert served.heard("tools/call") == []
            assert "Traceback" not in caplog.text
