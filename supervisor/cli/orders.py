"""`start`, `stop`, `restart`, `enable` and `disable`: what the servers shall do.

All servers that were named are told at once; each is reported when it is so.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from supervisor.cli.failures import as_object, tell
from supervisor.cli.grammar import Options, Parser, Verb
from supervisor.cli.render import coloured, paint
from supervisor.cli.status import STATE_COLOURS
from supervisor.core.printable import one_line
from supervisor.errors import DONE, FAILED, SupervisorError
from supervisor.surfaces.client import SyncClient

LONGEST_ORDER = 3600.0
"""Seconds; how long a start or a stop may take is for each server's own settings to say."""
UP = ("connected", "idle")
DOWN = ("stopped", "disabled")
AFTERWARDS: Mapping[str, Sequence[str]] = {
    "start": UP,
    "stop": DOWN,
    "restart": UP,
    "enable": UP,
    "disable": DOWN,
}
"""In which states an order has been carried out."""


def _declare(parser: Parser) -> None:
    parser.add_argument("rest", nargs="+", metavar="SERVER", help="name of a server, as `status` lists it")
    parser.add_argument(
        "--no-wait", action="store_false", dest="wait", help="do not wait until it is so, only ask for it"
    )


def _declare_override(parser: Parser) -> None:
    _declare(parser)
    parser.add_argument(
        "--reset", action="store_true", help="forget what was said by hand, so that the entry counts again"
    )


def give(order: str, options: Options) -> int:
    """Tell every server that was named; the exit status is that of the worst."""
    names = list(dict.fromkeys(options.rest))
    reset = bool(getattr(options, "reset", False))
    wish = {"wait": options.wait, **({"reset": True} if reset else {})}
    questions = [{"server": name, **wish} for name in names]
    # What comes of a reset is for the entry to say.
    wanted = (*UP, *DOWN) if reset else AFTERWARDS[order]
    answers: dict[str, Any] = {}
    status = DONE
    with SyncClient(options.socket) as client:
        for at, answer in client.requests(f"servers/{order}", questions, timeout=LONGEST_ORDER):
            failure = isinstance(answer, SupervisorError)
            answers[names[at]] = {"error": as_object(answer)} if failure else answer
            failed = _judge(wanted, answer, wait=options.wait)
            if not options.json:
                _report(names[at], answer, failed=failed != DONE)
            status = max(status, failed)
    if options.json:
        print(json.dumps({"servers": {name: answers[name] for name in names}}, indent=2))
    return status


def _judge(wanted: Sequence[str], answer: Any, *, wait: bool) -> int:
    if isinstance(answer, SupervisorError):
        return answer.exit_status
    return FAILED if wait and answer["state"] not in wanted else DONE


def _report(name: str, answer: Any, *, failed: bool) -> None:
    if isinstance(answer, SupervisorError):
        tell(answer, as_json=False)
        return
    state = paint(answer["state"], STATE_COLOURS.get(answer["state"]) if coloured() else None)
    # Without a source it is not configured, and its state says less than the reason.
    reason = f" ({one_line(answer['reason'])})" if failed or answer.get("source") == "" else ""
    print(f"{one_line(name)}: {state}{reason}", file=sys.stderr if failed else sys.stdout, flush=True)


def _verb(order: str, purpose: str, examples: str, declare: Callable[[Parser], None] = _declare) -> Verb:
    return Verb(order, purpose, examples, partial(give, order), declare, takes_more=True)


START = _verb(
    "start",
    "start servers, and wait until they are connected",
    "  mcp-supervisor start github\n  mcp-supervisor start github files --no-wait\n",
)
STOP = _verb(
    "stop",
    "stop servers until they are started again, and wait until they are gone",
    "  mcp-supervisor stop github\n",
)
RESTART = _verb(
    "restart",
    "stop servers and start them again",
    "  mcp-supervisor restart github\n",
)
ENABLE = _verb(
    "enable",
    "start servers that the configuration disables; this is remembered",
    "  mcp-supervisor enable context7\n"
    "  mcp-supervisor enable context7 --reset     (as its entry says, from now on)\n",
    _declare_override,
)
DISABLE = _verb(
    "disable",
    "stop servers and keep them stopped, over restarts of the daemon too",
    "  mcp-supervisor disable github\n"
    "  mcp-supervisor disable github --reset      (as its entry says, from now on)\n",
    _declare_override,
)
