"""A call ends exactly once, and says truly how; on a virtual clock."""

import json
from collections.abc import Callable
from typing import Any

import anyio
import msgspec
import pytest
from trio.testing import MockClock

from supervisor.core.phases import End
from supervisor.errors import (
    BadAnswer,
    Cancelled,
    InvalidRequest,
    Outcome,
    ServerDied,
    ServerUnavailable,
    SupervisorError,
    TimedOut,
)
from supervisor.runtime.calls import Call, CallRequest
from tests.runtime.call_support import Ends, Sent, run_for

GONE = End("killed by signal 9 (SIGKILL)", signal=9)


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "trio", {"clock": MockClock(autojump_threshold=0)}


def text(content: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": content}]}


@pytest.fixture
def ends() -> Ends:
    return Ends()


# Each end by itself.


@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        (text("fine"), Outcome.OK),
        ({**text("bad"), "isError": True}, Outcome.TOOL_ERROR),
        ({**text("fine"), "isError": False, "_meta": {"x": 1}}, Outcome.OK),
        ({"resultType": "input_required"}, Outcome.OK),
        (None, Outcome.OK),
    ],
)
def test_a_result_is_passed_on_and_counted_as_what_it_is(ends: Ends, result: Any, outcome: Outcome) -> None:
    Sent(ends).answer(result=result)

    assert ends.heard == [result]
    assert ends.outcomes == [outcome]


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (-32602, Outcome.REJECTED),
        (-32601, Outcome.REJECTED),
        (-32603, Outcome.TOOL_ERROR),
        (7, Outcome.TOOL_ERROR),
    ],
)
def test_an_error_of_the_server_passes_as_it_is(ends: Ends, code: int, outcome: Outcome) -> None:
    error = {"code": code, "message": "no", "data": {"hint": 1}}

    Sent(ends).answer(error=error)

    assert ends.heard == [error]
    assert ends.outcomes == [outcome]


def test_an_error_that_is_too_large_keeps_its_code_and_its_beginning(ends: Ends) -> None:
    Sent(ends).answer(error={"code": 7, "message": "no room" + "!" * 5000, "data": ["x"] * 1000})

    (error,) = ends.heard
    assert error["code"] == 7
    assert error["message"].startswith("no room!")
    assert error["message"].endswith("bytes of error left out, over the limit of 2000]")
    assert len(json.dumps(error)) <= ends.max_result_bytes
    assert (ends.cuts, ends.outcomes) == (1, [Outcome.TOOL_ERROR])


def test_a_result_that_is_too_large_is_cut_and_says_so(ends: Ends) -> None:
    Sent(ends).answer(result=text("x" * 10_000))

    (result,) = ends.heard
    assert "bytes left out]" in result["content"][0]["text"]
    assert len(json.dumps(result)) <= ends.max_result_bytes
    assert ends.cuts == 1


def test_a_client_that_wants_it_flat_gets_text(ends: Ends) -> None:
    Sent(ends, flatten=True).answer(result=text("fine"))

    assert ends.heard == [{"error": False, "output": "fine"}]


def test_a_server_that_dies_leaves_it_unknown_whether_the_tool_ran(ends: Ends) -> None:
    Sent(ends).wire.lose(GONE)

    (error,) = ends.heard
    assert isinstance(error, ServerDied)
    assert str(error) == (
        "cannot tell whether files_read ran: server files killed by signal 9 (SIGKILL) before it answered"
    )
    assert error.data["outcome"] == Outcome.UNKNOWN
    assert error.data["exit"]["signal"] == 9
    assert ends.outcomes == [Outcome.UNKNOWN]


def test_a_flat_answer_says_that_the_server_is_gone(ends: Ends) -> None:
    Sent(ends, flatten=True).wire.lose(GONE)

    (answer,) = ends.heard
    assert answer["error"] is True
    assert answer["output"].startswith("MCP server unreachable: cannot tell whether files_read ran")


def test_a_call_whose_time_is_over_is_cancelled_at_the_server(ends: Ends) -> None:
    sent = Sent(ends)
    sent.call.began = 10.0

    sent.call.expire(70.0)

    (error,) = ends.heard
    assert isinstance(error, TimedOut)
    assert str(error) == "cannot wait any longer for files_read: no answer within 60.0 s"
    assert sent.written[-1] == {
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": 1, "reason": "timed out"},
    }
    assert ends.outcomes == [Outcome.TIMED_OUT]


def test_a_call_that_was_never_sent_says_so_when_its_time_is_over(ends: Ends) -> None:
    call = Call(ends, CallRequest("files_read"), ends, "client")

    call.expire(5.0)

    (error,) = ends.heard
    assert isinstance(error, TimedOut)
    assert "not sent within 5.0 s" in str(error)
    assert ends.outcomes == [Outcome.NOT_SENT]


def test_a_cancelled_call_is_cancelled_at_the_server(ends: Ends) -> None:
    sent = Sent(ends)

    sent.call.cancel("the client disconnected")

    (error,) = ends.heard
    assert isinstance(error, Cancelled)
    assert sent.written[-1]["params"] == {"requestId": 1, "reason": "the client disconnected"}
    assert ends.outcomes == [Outcome.CANCELLED]


@pytest.mark.parametrize(
    ("problem", "outcome", "sentence"),
    [
        (BadAnswer("it is not UTF-8"), Outcome.UNKNOWN, "cannot tell how files_read ended: it is not UTF-8"),
        (
            InvalidRequest("HTTP 418", outcome=Outcome.REJECTED),
            Outcome.REJECTED,
            "cannot call files_read: HTTP 418",
        ),
    ],
)
def test_an_answer_that_cannot_be_passed_on_ends_the_call_with_an_account(
    ends: Ends, problem: SupervisorError, outcome: Outcome, sentence: str
) -> None:
    Sent(ends).call.unusable(problem)

    (error,) = ends.heard
    assert isinstance(error, type(problem))
    assert str(error) == sentence
    assert error.data == {"server": "files", "outcome": outcome}
    assert ends.outcomes == [outcome]


# Once and no more.

Act = Callable[[Sent], None]
ACTS: dict[str, Act] = {
    "answered": lambda sent: sent.answer(result={}),
    "refused": lambda sent: sent.answer(error={"code": 1, "message": ""}),
    "lost": lambda sent: sent.wire.lose(GONE),
}
OURS: dict[str, Act] = {
    "expired": lambda sent: sent.call.expire(1.0),
    "cancelled": lambda sent: sent.call.cancel("enough"),
}


@pytest.mark.parametrize("second", ACTS)
@pytest.mark.parametrize("first", ACTS | OURS)
def test_whatever_the_server_does_after_the_end_the_client_hears_nothing(
    ends: Ends, first: str, second: str
) -> None:
    sent = Sent(ends)

    (ACTS | OURS)[first](sent)
    ACTS[second](sent)

    assert len(ends.heard) == len(ends.outcomes) == 1


@pytest.mark.parametrize("second", OURS)
@pytest.mark.parametrize("first", ACTS | OURS)
def test_a_call_that_has_ended_does_not_end_again(ends: Ends, first: str, second: str) -> None:
    sent = Sent(ends)

    (ACTS | OURS)[first](sent)
    OURS[second](sent)

    assert len(ends.heard) == len(ends.outcomes) == 1


# Progress.


def test_progress_reaches_the_client_under_its_own_token(ends: Ends) -> None:
    sent = Sent(ends)
    sent.call.client_token = msgspec.Raw(b'"mine"')

    sent.call.progressed({"progressToken": msgspec.Raw(b"7"), "progress": msgspec.Raw(b"0.50")})

    assert ends.heard == [("notifications/progress", {"progressToken": "mine", "progress": 0.5})]


def test_a_client_without_a_token_hears_of_no_progress(ends: Ends) -> None:
    Sent(ends).call.progressed({"progress": msgspec.Raw(b"1")})

    assert ends.heard == []


# Deadlines.


def due(ends: Ends, deadline: float) -> Sent:
    sent = Sent(ends)
    sent.call.deadline = deadline
    ends.deadlines.add(sent.call)
    return sent


async def test_calls_end_when_their_time_is_over_and_not_before(ends: Ends) -> None:
    now = anyio.current_time()
    for seconds in (5, 3, 60):
        due(ends, now + seconds)

    await run_for(ends, 10)

    assert ends.outcomes == [Outcome.TIMED_OUT] * 2


async def test_a_nearer_deadline_than_all_others_is_kept(ends: Ends) -> None:
    now = anyio.current_time()
    due(ends, now + 60)
    async with anyio.create_task_group() as tg:
        tg.start_soon(ends.deadlines.run)
        await anyio.sleep(1)

        due(ends, now + 2)

        await anyio.sleep(1.5)
        assert ends.outcomes == [Outcome.TIMED_OUT]
        tg.cancel_scope.cancel()


async def test_a_deadline_that_moved_on_is_waited_for(ends: Ends) -> None:
    now = anyio.current_time()
    sent = due(ends, now + 2)
    async with anyio.create_task_group() as tg:
        tg.start_soon(ends.deadlines.run)
        await anyio.sleep(1)
        sent.call.deadline = now + 6

        await anyio.sleep(4)
        before = list(ends.outcomes)
        await anyio.sleep(2)
        tg.cancel_scope.cancel()

    assert before == []
    assert ends.outcomes == [Outcome.TIMED_OUT]


async def test_a_call_that_was_answered_has_no_deadline_any_more(ends: Ends) -> None:
    due(ends, anyio.current_time() + 2).answer(result={})

    await run_for(ends, 10)

    assert ends.outcomes == [Outcome.OK]


def test_a_call_that_a_wire_could_not_send_says_when_to_try_again(ends: Ends) -> None:
    Sent(ends).call.not_sent("wants to be left alone", retry_after=3.0)

    (error,) = ends.heard
    assert isinstance(error, ServerUnavailable)
    assert str(error) == "cannot call server files: it wants to be left alone"
    assert error.data["retryAfter"] == 3.0
    assert ends.outcomes == [Outcome.NOT_SENT]


def test_a_call_that_a_wire_could_not_send_may_be_tried_at_any_time(ends: Ends) -> None:
    Sent(ends).call.not_sent("is gone")

    assert "retryAfter" not in ends.heard[0].data
