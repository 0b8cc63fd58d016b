"""How a verb is declared, and the parser that knows what may come next.

Owns the form of a command line. Which verbs there are is in `parser`; what each does, in its own module.
"""

import argparse
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

from supervisor.cli.failures import Usage
from supervisor.cli.render import screen_width

Options = argparse.Namespace
Act = Callable[[Options], int]

MANY = ("*", "+")


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are ours, and which can be asked what it would accept."""

    def __init__(self, **options: Any) -> None:
        # With a width of its own, so that argparse need not import shutil to ask the terminal.
        form = partial(argparse.RawDescriptionHelpFormatter, width=min(screen_width(), 100) - 2)
        super().__init__(formatter_class=form, allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        raise Usage(f"cannot understand the command: {message}; see '{self.prog} --help'")

    def flags(self) -> tuple[str, ...]:
        """All options, as they are written."""
        return tuple(self._option_string_actions)

    def flag_with_value(self, word: str) -> argparse.Action | None:
        """The option of that spelling, when a value must follow it."""
        action = self._option_string_actions.get(word)
        return action if action is not None and action.nargs != 0 else None

    def awaited(self, words: Sequence[str]) -> argparse.Action | None:
        """What the word after these would be: an option's value, or a positional; None when nothing fits."""
        given, value_of = 0, None
        for word in words:
            if value_of is not None:
                value_of = None
            elif word.startswith("-") and word != "-":
                value_of = self.flag_with_value(word)
            else:
                given += 1
        return value_of or self._positional(given)

    def verb_position(self, words: Sequence[str]) -> int | None:
        """Where the verb stands; None while it is still to come."""
        value = False
        for at, word in enumerate(words):
            if value:
                value = False
            elif word.startswith("-"):
                value = self.flag_with_value(word) is not None
            else:
                return at
        return None

    def _positional(self, given: int) -> argparse.Action | None:
        actions = self._get_positional_actions()
        if given < len(actions):
            return actions[given]
        return actions[-1] if actions and actions[-1].nargs in MANY else None


def _no_more(_parser: Parser) -> None:
    """Only the options that every verb has."""


@dataclass(frozen=True, slots=True)
class Verb:
    name: str
    purpose: str
    """After the name in the list of verbs; a phrase without a full stop."""
    examples: str
    act: Act
    declare: Callable[[Parser], None] = _no_more
    takes_more: bool = False
    """Whether words may follow its options; they are added to `rest`."""

    def add_to(self, verbs: Any) -> None:
        """Make it one of the verbs of a parser."""
        parser: Parser = verbs.add_parser(
            self.name,
            help=self.purpose,
            description=f"{self.purpose[0].upper()}{self.purpose[1:]}.",
            epilog=f"examples:\n{self.examples}",
        )
        # Left out here, they keep what stood before the verb.
        add_common(parser, json_default=argparse.SUPPRESS, socket_default=argparse.SUPPRESS)
        parser.set_defaults(act=self.act, takes_more=self.takes_more)
        self.declare(parser)


def add_common(parser: Parser, *, json_default: Any, socket_default: Any) -> None:
    """The options that may stand before and after every verb."""
    parser.add_argument("--json", action="store_true", default=json_default, help="print JSON, for programs")
    parser.add_argument("--socket", metavar="PATH", default=socket_default, help="where the daemon listens")


def seconds(text: str) -> float:
    """A duration above zero."""
    with suppress(ValueError):
        if 0 < float(text) < float("inf"):
            return float(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")


def count(text: str) -> int:
    """A whole number, zero included."""
    if text.isascii() and text.isdigit():
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no whole number")


def count_above_zero(text: str) -> int:
    """A whole number above zero."""
    number = count(text)
    if number == 0:
        raise argparse.ArgumentTypeError("0 is too few")
    return number
