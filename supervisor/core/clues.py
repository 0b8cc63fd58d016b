"""What a server's own words give away about its trouble.

`clues` reads lines of output and answers with what they look like, one suggestion per kind of trouble. Text
is evidence, never proof, so every cause says "looks like" and quotes the line. Facts that need no guessing
are `diagnosis`'s.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from supervisor.core.printable import one_line
from supervisor.core.suggestion import Kind, Suggestion

QUOTED_LENGTH = 160
_SEARCHED_LENGTH = 500
"""Characters of a line that are searched; what matters stands at its beginning."""


@dataclass(frozen=True, slots=True)
class _Clue:
    kind: Kind
    pattern: re.Pattern[str]
    looks_like: str
    fix: str
    remote_fix: str
    """For a server that we reach and do not start."""


def _clue(kind: Kind, pattern: str, looks_like: str, fix: str, remote_fix: str = "") -> _Clue:
    return _Clue(kind, re.compile(pattern, re.IGNORECASE | re.VERBOSE), looks_like, fix, remote_fix or fix)


# One trouble often brings on another, so the more exact comes first.
_CLUES = (
    _clue(
        Kind.WRONG_FORMAT,
        r"exec\ format\ error",
        "the file is neither a program for this machine nor a script with a `#!` line",
        "Install the build for this machine, or start the script through its interpreter.",
    ),
    _clue(
        Kind.NEEDS_TERMINAL,
        r"not\ a\ (?:tty|terminal) | inappropriate\ ioctl",
        "it wants a terminal, and a server has none",
        "Remove the option that asks for one (`-t` of docker run; `-i` stays).",
    ),
    _clue(
        Kind.PACKAGE_NOT_FOUND,
        r"\bE404\b | ETARGET | not\ found\ in\ the\ package\ registry | no\ matching\ distribution"
        r"| could\ not\ determine\ executable | no\ solution\ found\ when\ resolving"
        r"| (?:manifest|repository)\ .{0,80}\ (?:unknown|not\ exist)",
        "the registry has no such package, image or version, or there is no program in it",
        "Check the name and the version in args.",
    ),
    _clue(
        Kind.MODULE_NOT_FOUND,
        r"ModuleNotFoundError | No\ module\ named | Cannot\ find\ (?:module|package) | ERR_MODULE_NOT_FOUND",
        "a module that it needs is not installed where it runs",
        "Install it for the interpreter in command, or name the interpreter that has it there.",
    ),
    _clue(
        Kind.IN_USE,
        r"EADDRINUSE | address\ already\ in\ use | port\ \d+\ is\ (?:already\ )?(?:in\ use|taken|allocated)"
        r"| already\ locked | database\ is\ locked | could\ not\ (?:acquire|obtain)\ .{0,40}\block"
        r"| another\ instance\ (?:of\ .{1,40}\ )?is\ (?:already\ )?running",
        "a port or a lock that it wants is held by another process",
        "End the other copy (a client may have started its own), or give this one another port or directory.",
    ),
    _clue(
        Kind.NEEDS_CREDENTIALS,
        r"unauthori[sz]ed | \bforbidden\b | authentication\ (?:failed|required|error) | \bnot\ logged\ in\b"
        r"| (?:http|status|code|error)\D{0,12}\b40[13]\b"
        r"| \b(?:missing|invalid|no|set|provide|requires?|expired)\b.{0,40}"
        r"(?:api[ _-]?key|(?:access|auth|bearer)[ _-]?token|credentials?\b|password|_token\b|_secret\b)"
        r"| (?:api[ _-]?key|token|credentials?|password|_secret)\b.{0,40}"
        r"\b(?:required|missing|expired|invalid|not\ (?:set|found|provided|defined)|must\ be|undefined)\b",
        "it needs credentials that it was not given, or that are not accepted",
        "Put the key or token into env (or headers) of its entry, as ${NAME} or ${cred:NAME}.",
    ),
    _clue(
        Kind.PERMISSION,
        r"permission\ ?denied | PermissionError | \bEACCES\b | \bEPERM\b | operation\ not\ permitted",
        "it may not use a file, directory or socket that it needs",
        "Let the daemon's user use it, or give the server another path.",
    ),
    _clue(
        Kind.CERTIFICATE,
        r"certificate\ (?:is\ not\ trusted|verify\ failed|has\ expired) | CERTIFICATE_VERIFY_FAILED"
        r"| self[- _]signed[ _]cert | unable\ to\ (?:get|verify)\ .{0,20}\b(?:issuer|leaf|first)\b"
        r"| UNABLE_TO_(?:GET_ISSUER|VERIFY_LEAF) | CERT_HAS_EXPIRED | x509:",
        "the certificate of what it talks to is not trusted",
        "Name the authority's file in env of its entry (NODE_EXTRA_CA_CERTS for node, SSL_CERT_FILE for "
        "most others); a certificate that has expired is for its owner to renew.",
        "Name the file of the authority that signed it in caFile of its entry, if it is the right server; a "
        "certificate that has expired is for its owner to renew.",
    ),
    _clue(
        Kind.NETWORK,
        r"ENOTFOUND | EAI_AGAIN | ECONNREFUSED | ETIMEDOUT | name\ resolution | could\ not\ resolve"
        r"| network\ is\ unreachable | connection\ refused | getaddrinfo | cannot\ be\ reached",
        "it cannot reach something over the network",
        "Check the address, name resolution and proxy (HTTPS_PROXY is passed only when inheritEnv names it).",
        "Check that it runs, its url, name resolution and proxy (HTTPS_PROXY, NO_PROXY of the daemon count).",
    ),
    _clue(
        Kind.MEMORY,
        r"heap\ out\ of\ memory | MemoryError | cannot\ allocate\ memory | \bENOMEM\b",
        "it ran out of memory",
        "Give it more (NODE_OPTIONS=--max-old-space-size=… for node, MemoryMax= of the unit), or less to do.",
    ),
    _clue(
        Kind.WRONG_ARGUMENTS,
        r"^\s*usage: | (?:unrecogni[sz]ed|unknown|invalid)\ (?:option|argument|command)"
        r"| missing\ (?:required\ )?(?:argument|option|positional) | arguments\ are\ required",
        "it does not accept its arguments",
        "Correct args; each word is an element of its own, and no shell reads them.",
    ),
)

_DOWNLOAD = re.compile(
    r"npm\ (?:warn|notice|http)|will\ be\ installed|need\ to\ install|\bdownload|\binstall(?:ing|ed)\b"
    r"|\bpulling\b|unable\ to\ find\ image|resolved\ \d+\ packages?|\bfetching\b|building\ wheel",
    re.IGNORECASE,
)


def clues(lines: Sequence[str], *, remote: bool = False) -> Iterator[Suggestion]:
    """What the lines look like, the more exact first; the latest line that fits is quoted.

    `remote` tells that the server is reached over HTTP and is no process of ours.
    """
    for clue in _CLUES:
        line = _latest(clue.pattern, lines)
        if line is not None:
            fix = clue.remote_fix if remote else clue.fix
            yield Suggestion(clue.kind, f"It looks like {clue.looks_like}: {quoted(line)}.", fix)


def download(lines: Sequence[str]) -> str | None:
    """The latest line that speaks of a package being fetched."""
    return _latest(_DOWNLOAD, lines)


def quoted(line: str) -> str:
    """The line as part of a sentence: safe to show, and not too long."""
    text = one_line(line.strip())
    return f'"{text if len(text) <= QUOTED_LENGTH else text[:QUOTED_LENGTH] + "…"}"'


def _latest(pattern: re.Pattern[str], lines: Sequence[str]) -> str | None:
    return next((line for line in reversed(lines) if pattern.search(line[:_SEARCHED_LENGTH])), None)
