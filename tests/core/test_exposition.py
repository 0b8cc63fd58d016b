"""Series as text: both formats, read back by Prometheus' own parser."""

from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from supervisor.core.exposition import Distribution, Family, Format, negotiate, write

READERS: dict[Format, Callable[[str], Iterable[Metric]]] = {
    "text": read_text,
    "openmetrics": read_openmetrics,
}
FORMATS: tuple[Format, ...] = ("text", "openmetrics")
values = st.text(st.characters(blacklist_categories=["Cs"]), max_size=20)


def samples(families: list[Family | Distribution], form: Format) -> list[tuple[str, dict[str, str], float]]:
    parsed = READERS[form](write(families, form).decode())
    return [(sample.name, sample.labels, sample.value) for metric in parsed for sample in metric.samples]


@pytest.mark.parametrize("form", FORMATS)
@given(first=values, second=values, number=st.floats(0, 1e15) | st.integers(0, 2**53))
def test_any_label_and_any_number_can_be_read_back(
    form: Format, first: str, second: str, number: float
) -> None:
    family = Family("calls", "counter", "Calls.", ("server", "tool"), [((first, second), number)])

    assert samples([family], form) == [("calls_total", {"server": first, "tool": second}, number)]


@pytest.mark.parametrize("form", FORMATS)
def test_a_histogram_can_be_read_back(form: Format) -> None:
    family = Distribution(
        "seconds", "Took.", ("server",), [(("s",), ((0.1, 1), (1.0, 3), (float("inf"), 4)), 9.5)]
    )

    assert samples([family], form) == [
        ("seconds_bucket", {"server": "s", "le": "0.1"}, 1),
        ("seconds_bucket", {"server": "s", "le": "1.0"}, 3),
        ("seconds_bucket", {"server": "s", "le": "+Inf"}, 4),
        ("seconds_sum", {"server": "s"}, 9.5),
        ("seconds_count", {"server": "s"}, 4),
    ]


def test_a_histogram_without_labels_has_only_its_bounds() -> None:
    family = Distribution("seconds", "Took.", (), [((), ((float("inf"), 2),), 1.5)])

    assert b'seconds_bucket{le="+Inf"} 2\nseconds_sum 1.5\nseconds_count 2\n' in write([family], "text")


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("text", "# HELP up Up.\n# TYPE up gauge\nup 1\n# HELP build_info What.\n# TYPE build_info gauge\n"),
        ("openmetrics", "# HELP up Up.\n# TYPE up gauge\nup 1\n# HELP build What.\n# TYPE build info\n"),
    ],
)
def test_each_format_heads_a_family_in_its_own_way(form: Format, text: str) -> None:
    up = Family("up", "gauge", "Up.", (), [((), True)])
    build = Family("build", "info", "What.", ("version",), [(("1",), 1)])

    ending = 'build_info{version="1"} 1\n' + ("# EOF\n" if form == "openmetrics" else "")

    assert write([up, build], form).decode() == text + ending


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", "text"),
        ("*/*", "text"),
        ("text/plain;version=0.0.4", "text"),
        ("application/openmetrics-text;version=1.0.0,text/plain;q=0.5", "openmetrics"),
        ("text/plain, application/openmetrics-text", "openmetrics"),
    ],
)
def test_openmetrics_is_for_those_who_ask_for_it(accept: str, form: Format) -> None:
    assert negotiate(accept) == form
