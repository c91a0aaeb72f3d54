"""The report of the benchmarks: a figure that is absent never looks good."""

from __future__ import annotations

from typing import Any

import pytest

from tests.perf.bars import AT_LEAST, AT_MOST, BARS, Bar
from tests.perf.report import judged, table

_COST = Bar("b", "cost", AT_MOST, 2.0)


def _said(samples: int = 5, **values: float | None) -> dict[str, Any]:
    return {
        "rows": [
            {"name": name, "value": v, "unit": "", "samples": samples} for name, v in values.items()
        ]
    }


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (_said(other=1.0), "no value"),
        (_said(cost=None), "no value"),
        (_said(samples=0, cost=0.0), "no value"),
        (_said(cost=float("-inf")), "not a number"),
        ({"failed": "error: no OpenGL"}, "error: no OpenGL"),
    ],
)
def test_a_row_without_a_value_has_failed(said: dict[str, Any], reason: str) -> None:
    line = judged(_COST, said, {"lines": [{"bench": "b", "row": "cost", "now": 1.0}]})
    assert line["now"] is None
    assert not line["met"]
    assert (
        table([line]).splitlines()[2]
        == f"| b: `cost` | at most 2 | 1 | - | - | **failed**: {reason} |"
    )


@pytest.mark.parametrize(
    ("bar", "met"),
    [
        (Bar("b", "x", AT_MOST, 3.0), True),
        (Bar("b", "x", AT_MOST, 2.9), False),
        (Bar("b", "x", AT_LEAST, 3.0), True),
        (Bar("b", "x", AT_LEAST, 3.1), False),
        (Bar("b", "x", unit="us"), True),
        (Bar("b", "x / y", AT_MOST, 1.5), True),
        (Bar("b", "x / y", AT_MOST, 1.4), False),
        (Bar("b", "x - y", AT_MOST, 1.0, "px"), True),
        (Bar("b", "x - y", AT_MOST, 0.9, "px"), False),
        (Bar("b", "x / zero", AT_MOST, 9.0), False),
        (Bar("b", "x / absent", AT_MOST, 9.0), False),
    ],
)
def test_a_bar_is_met_or_missed(bar: Bar, met: bool) -> None:
    line = judged(bar, _said(x=3.0, y=2.0, zero=0.0), {})
    assert line["met"] is met


def test_a_missed_bar_says_by_how_much_it_changed() -> None:
    line = judged(_COST, _said(cost=3.0), {"lines": [{"bench": "b", "row": "cost", "now": 2.0}]})
    assert (
        table([line]).splitlines()[2] == "| b: `cost` | at most 2 | 2 | 3 | +50.0 % | **missed** |"
    )


def test_without_a_previous_report_nothing_is_compared() -> None:
    line = judged(_COST, _said(cost=1.0), {})
    assert table([line]).splitlines()[2] == "| b: `cost` | at most 2 | - | 1 | - | yes |"


def test_what_the_speed_of_the_machine_decides_is_not_compared() -> None:
    line = judged(
        Bar("b", "age", AT_MOST, 9.0, "ms"),
        _said(age=3.0),
        {"lines": [{"bench": "b", "row": "age", "now": 1}]},
    )
    assert table([line]).splitlines()[2] == "| b: `age` | at most 9 ms | - | 3 | - | yes |"


def test_rows_of_two_benches_may_share_a_name_but_no_bar_comes_twice() -> None:
    assert len({(bar.bench, bar.row) for bar in BARS}) == len(BARS)
