"""Series as text, in the two formats that Prometheus reads.

Pure and quick: a scrape of fifty servers and thousands of tools is some thousand lines, and writing them is
all that a scrape costs. What the series are is `surfaces.metrics`'.
"""

from collections.abc import Iterable, Iterator
from typing import Literal

from msgspec import Struct

Kind = Literal["gauge", "counter", "histogram", "info"]
Format = Literal["text", "openmetrics"]
Buckets = tuple[tuple[float, int], ...]
"""Each bound and how many values are not above it; the last bound is infinite."""

CONTENT_TYPES: dict[Format, str] = {
    "text": "text/plain; version=0.0.4; charset=utf-8",
    "openmetrics": "application/openmetrics-text; version=1.0.0; charset=utf-8",
}
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_SUFFIXES: dict[Kind, str] = {"gauge": "", "counter": "_total", "histogram": "", "info": "_info"}


class Family(Struct, frozen=True):
    """All series of one name."""

    name: str
    """Without the suffix that its kind adds."""
    kind: Kind
    sentence: str
    labels: tuple[str, ...]
    rows: Iterable[tuple[tuple[str, ...], float]]
    """For each series the values of its labels, and the number."""


class Distribution(Struct, frozen=True):
    """All histograms of one name."""

    name: str
    sentence: str
    labels: tuple[str, ...]
    rows: Iterable[tuple[tuple[str, ...], Buckets, float]]
    """For each series the values of its labels, its buckets, and the sum of the values."""


def negotiate(accept: str) -> Format:
    """The format for a reader who accepts these types; plain text for whoever does not ask for more."""
    wanted = (part.partition(";")[0].strip() for part in accept.split(","))
    return "openmetrics" if "application/openmetrics-text" in wanted else "text"


def write(families: Iterable[Family | Distribution], form: Format) -> bytes:
    """The whole text."""
    lines: list[str] = []
    for family in families:
        lines += _distribution(family) if isinstance(family, Distribution) else _family(family, form)
    if form == "openmetrics":
        lines.append("# EOF")
    return "\n".join((*lines, "")).encode()


def _family(family: Family, form: Format) -> Iterator[str]:
    sample = family.name + _SUFFIXES[family.kind]
    kind = "gauge" if family.kind == "info" and form == "text" else family.kind
    yield from _head(sample if form == "text" else family.name, kind, family.sentence)
    for values, number in family.rows:
        yield f"{sample}{_labels(family.labels, values)} {_number(number)}"


def _distribution(family: Distribution) -> Iterator[str]:
    yield from _head(family.name, "histogram", family.sentence)
    name = family.name
    for values, buckets, total in family.rows:
        labels = _labels(family.labels, values)
        opened = f"{name}_bucket{labels[:-1]},le=" if labels else f"{name}_bucket{{le="
        for bound, count in buckets:
            yield f'{opened}"{_number(bound)}"}} {count}'
        yield f"{name}_sum{labels} {_number(total)}"
        yield f"{name}_count{labels} {buckets[-1][1]}"


def _head(name: str, kind: Kind, sentence: str) -> Iterator[str]:
    yield f"# HELP {name} {sentence}"
    yield f"# TYPE {name} {kind}"


def _labels(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    pairs = [f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True)]
    return f"{{{','.join(pairs)}}}" if pairs else ""


def _escaped(value: str) -> str:
    # Nearly every value is a plain name.
    return value if value.isidentifier() else value.translate(_ESCAPES)


def _number(number: float) -> str:
    if number == float("inf"):
        return "+Inf"
    return repr(number + 0)
