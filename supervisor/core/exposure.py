"""Secrets that stand where every user of the machine can read them: among the arguments of a process.

A notice names the option, the header or the reference, never a value. Whether something is a secret can only
be guessed from its name, so nothing is refused.
"""

import re
from collections.abc import Iterable, Iterator

from supervisor.core.problems import Notice
from supervisor.core.servers import BadServer, ServerSpec
from supervisor.core.spec import StdioEntry

TELLING = (
    r"(?:token|secret|password|passwd|passphrase|credentials?|bearer|authorization"
    r"|(?:api|access|secret|private|auth|encryption)[-_.]?key)"
)
OPTION = re.compile(rf"(--?[\w.-]*{TELLING})(?:=(.*))?", re.IGNORECASE | re.DOTALL)
"""`--max-tokens` and `--password-file` are none: the word has to be the last."""
HEADER = re.compile(rf"([\w-]*{TELLING}): *\S.*", re.IGNORECASE | re.DOTALL)
_REFERENCE = re.compile(
    rf"\$\{{(?:cred|file):[^{{}}]+\}}|\{{file:[^{{}}]+\}}|\$?\{{(?:env:)?\w*{TELLING}(?::-[^{{}}]*)?\}}",
    re.IGNORECASE,
)


def exposed(servers: Iterable[ServerSpec | BadServer]) -> Iterator[Notice]:
    """A notice for every argument that looks like a secret."""
    for server in servers:
        if isinstance(server, ServerSpec) and isinstance(server.entry, StdioEntry):
            for place, name in _secrets_among(server.entry.args):
                message = f"shows a secret ({name}) to whoever lists processes; pass it in env instead"
                yield Notice(server.source, f"server {server.name}, args[{place}]", message)


def _secrets_among(arguments: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """Where a secret stands, and what it is called."""
    before = ""
    for place, argument in enumerate(arguments):
        if name := _secret_in(argument, before):
            yield place, name
        before = argument


def _secret_in(argument: str, before: str) -> str | None:
    """What the secret in an argument is called, given the argument before it; None where there is none."""
    option, asked = OPTION.fullmatch(argument), OPTION.fullmatch(before)
    if option is not None:
        return option[1] if option[2] else None
    if asked is not None and asked[2] is None and not argument.startswith("-"):
        return asked[1]
    if header := HEADER.fullmatch(argument):
        return header[1]
    reference = _REFERENCE.search(argument)
    return reference[0] if reference else None
