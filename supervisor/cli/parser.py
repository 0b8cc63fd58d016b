"""The command line as a whole: the verbs in the order of the help, and how words become a command to run."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any

from supervisor import __version__
from supervisor.cli.failures import Usage
from supervisor.cli.grammar import Options, Parser, Verb, add_common
from supervisor.core.printable import one_line

Command = Callable[[], int]

MODULES: Mapping[str, str] = {
    "run": "service",
    "status": "status",
    "why": "why",
    "logs": "logs",
    "top": "top",
    "events": "events",
    "tools": "tools",
    "call": "call",
    "agents": "agents",
    "start": "orders",
    "stop": "orders",
    "restart": "orders",
    "enable": "orders",
    "disable": "orders",
    "reload": "reload",
    "check": "service",
    "add": "editing",
    "remove": "editing",
    "import": "importing",
    "shutdown": "service",
    "install-unit": "units",
    "selftest": "selftest",
    "completion": "completion",
    "version": "service",
}
"""Where each verb is declared, as `_constant` spells it; only the one that is asked for is imported."""
COMPLETE = "__complete"
"""What the completion scripts call."""

DESCRIPTION = "One daemon that owns all the MCP servers of this machine."
EXIT_CODES = """\
exit status:
  0 done   1 failed   2 wrong usage   3 not connected, or no such server
  69 the daemon cannot be reached   78 the configuration is wrong

`mcp-supervisor VERB --help` shows examples.
"""


def parse(argv: Sequence[str]) -> Command:
    """The command that the words ask for.

    Raises:
        Usage: the words make no command.
        SystemExit: help was asked for and is printed.
    """
    words = list(argv)
    parser = _root()
    if words[:1] == [COMPLETE]:
        from supervisor.cli.candidates import print_candidates

        return partial(print_candidates, parser, _add_verbs(parser, MODULES), words[1:])
    verbs = _add_verbs(parser, _needed(parser, words))
    own, command = _split(parser, verbs, words)
    options, surplus = parser.parse_known_args(own)
    options.command = command
    options.rest = [*getattr(options, "rest", ()), *_rest(options, surplus)]
    act: Callable[[Options], int] = options.act
    return partial(act, options)


def _needed(parser: Parser, words: Sequence[str]) -> Iterable[str]:
    """The verb that the words name; all of them for the help, or when they name none."""
    at = parser.verb_position(words)
    named = at is not None and words[at] in MODULES and not {"-h", "--help"} & set(words[:at])
    return [words[at]] if at is not None and named else MODULES


def _split(
    parser: Parser, verbs: Mapping[str, Parser], words: list[str]
) -> tuple[Sequence[str], Sequence[str]]:
    """Our own words, and the command after `--`, whose options argparse would take for ours.

    A verb that takes a command says so in its parser's default `takes_command`.
    """
    at = parser.verb_position(words)
    verb = verbs.get(words[at]) if at is not None else None
    if verb is None or not verb.get_default("takes_command") or "--" not in words:
        return words, ()
    end = words.index("--")
    return words[:end], words[end + 1 :]


def _rest(options: Options, surplus: Sequence[str]) -> Sequence[str]:
    """Words that follow an option; argparse takes a list of words only where it begins."""
    unknown = [word for word in surplus if word.startswith("-") or not options.takes_more]
    if unknown:
        raise Usage(
            f"cannot understand {one_line(' '.join(unknown))!r}; see 'mcp-supervisor {options.verb} --help'"
        )
    return surplus


def _root() -> Parser:
    parser = Parser(prog="mcp-supervisor", description=DESCRIPTION, epilog=EXIT_CODES)
    add_common(parser, json_default=False, socket_default=None)
    parser.add_argument("--version", action="version", version=f"mcp-supervisor {__version__}")
    return parser


def _add_verbs(parser: Parser, names: Iterable[str]) -> Mapping[str, Parser]:
    """Let the parser know these verbs; returns the parser of each."""
    verbs: Any = parser.add_subparsers(
        title="verbs", dest="verb", metavar="VERB", required=True, prog=parser.prog
    )
    for name in names:
        verb: Verb = getattr(import_module(f"supervisor.cli.{MODULES[name]}"), _constant(name))
        verb.add_to(verbs)
    return {name: verbs.choices[name] for name in names}


def _constant(name: str) -> str:
    """The name in capitals, as an identifier."""
    return name.upper().replace("-", "_")
