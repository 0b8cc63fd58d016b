"""Clients take turns: whoever was served longest ago is next, and whoever waits for most gives way."""

from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.turns import _MANY, Turns


def waiting(**counts: int) -> Turns[str]:
    """So many items of each client, named by client and number."""
    turns: Turns[str] = Turns()
    for client, count in counts.items():
        for number in range(count):
            turns.add(client, f"{client}{number}")
    return turns


def order(turns: Turns[str]) -> str:
    return " ".join(turns.take() for _ in range(turns.count))


def test_clients_take_turns_and_each_is_served_in_its_own_order() -> None:
    assert order(waiting(a=3, b=2, c=1)) == "a0 b0 c0 a1 b1 a2"


def test_who_comes_later_goes_before_one_that_was_just_served() -> None:
    turns = waiting(a=3)
    turns.serve("a")
    turns.add("b", "b0")

    assert order(turns) == "b0 a0 a1 a2"


def test_those_who_come_again_and_again_do_not_keep_others_waiting() -> None:
    turns = waiting(flood=9, b=1, c=1)
    served = [turns.take() for _ in range(3)]
    turns.add("b", "b1")
    turns.add("c", "c1")

    assert served == ["flood0", "b0", "c0"]
    assert order(turns).startswith("flood1 b1 c1")


def test_what_is_taken_out_is_not_served() -> None:
    turns = waiting(a=2, b=1)
    turns.remove("a", "a0")
    turns.remove("b", "b0")
    turns.remove("b", "b0")
    turns.remove("nobody", "x")

    assert (turns.count, order(turns)) == (1, "a1")


def test_everything_can_be_taken_out_at_once() -> None:
    turns = waiting(a=2, b=1)

    assert turns.clear() == ["a0", "a1", "b0"]
    assert (turns.count, list(turns)) == (0, [])


def test_who_waits_for_most_gives_way_to_who_waits_for_less() -> None:
    turns = waiting(a=3, b=1)

    assert turns.gives_way("c") == "a2"
    assert turns.gives_way("b") == "a2"
    assert turns.gives_way("a") is None


def test_nobody_gives_way_to_one_who_would_wait_for_as_many() -> None:
    assert waiting(a=2, b=1).gives_way("b") is None
    assert waiting().gives_way("a") is None


def test_only_so_many_are_remembered() -> None:
    turns = waiting(a=1)
    for number in range(_MANY + 1):
        turns.serve(number)
    turns.serve("a")
    turns.add("b", "b0")

    assert order(turns) == "b0 a0"


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), max_size=60))
def test_nobody_is_passed_over_more_often_than_others_wait(steps: list[tuple[str, bool]]) -> None:
    turns: Turns[int] = Turns()
    owner: dict[int, str] = {}
    passed: dict[str, int] = {}
    for number, (client, takes) in enumerate(steps):
        owner[number] = client
        turns.add(client, number)
        if takes:
            served = owner[turns.take()]
            passed.pop(served, None)
            for other in {owner[item] for item in turns} - {served}:
                passed[other] = passed.get(other, 0) + 1
                assert passed[other] < len("abcd")
