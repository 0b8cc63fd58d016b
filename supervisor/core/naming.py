"""The name under which a tool is offered.

A name is made here and never taken apart again: `a_b` + `c` and `a` + `b_c` give the same name, so who owns
it is a question for the catalog's table, not for a split.
"""

import hashlib
import re

MAX_LENGTH = 64
"""What the strictest of the model providers accept."""

_REJECTED = re.compile(r"[^A-Za-z0-9_-]")
_FINGERPRINT_LENGTH = 8
_KEPT_LENGTH = MAX_LENGTH - _FINGERPRINT_LENGTH - 1
"""How much of a name that is too long stays as it is."""


def public_name(prefix: str, separator: str, tool: str) -> str:
    """`prefix`, `separator` and `tool` joined and mended until every provider accepts it.

    An empty prefix asks for bare names: the separator is left out with it. `tool` must not be empty.
    """
    full = f"{prefix}{separator}{tool}" if prefix else tool
    mended = _REJECTED.sub("_", full)
    if len(mended) <= MAX_LENGTH:
        return mended
    return f"{mended[:_KEPT_LENGTH]}_{_fingerprint(full)}"


def beginning(prefix: str, separator: str) -> str:
    """How the public names of all tools of that prefix begin."""
    return _REJECTED.sub("_", f"{prefix}{separator}")[:_KEPT_LENGTH] if prefix else ""


def _fingerprint(full: str) -> str:
    """Eight characters that tell long names apart, also those that only mending made alike."""
    return hashlib.sha256(full.encode("utf-8", "surrogatepass")).hexdigest()[:_FINGERPRINT_LENGTH]
