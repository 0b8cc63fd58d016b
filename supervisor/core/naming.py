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


def public_name(prefix: str, separator: str, tool: str) -> str:
    """`prefix`, `separator` and `tool` joined and mended until every provider accepts it.

    An empty prefix asks for bare names: the separator is left out with it. `tool` must not be empty.
    """
    full = f"{prefix}{separator}{tool}" if prefix else tool
    mended = _REJECTED.sub("_", full)
    if len(mended) <= MAX_LENGTH:
        return mended
    kept = MAX_LENGTH - _FINGERPRINT_LENGTH - 1
    return f"{mended[:kept]}_{_fingerprint(full)}"


def _fingerprint(full: str) -> str:
    """Eight characters that tell long names apart, also those that only mending made alike."""
    return hashlib.sha256(full.encode("utf-8", "surrogatepass")).hexdigest()[:_FINGERPRINT_LENGTH]
