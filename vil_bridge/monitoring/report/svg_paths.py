"""Charts of paths and of values along them: overlays with equal axes, curves with gaps, boxes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

import numpy as np

from vil_bridge.monitoring.report.svg_charts import (
    WIDTH,
    ChartAxes,
    Floats,
    headroom,
    svg,
    time_span,
)

_HIGHEST: Final = 560.0
_LEAST_PX: Final = 1.5
_COLUMNS: Final = 900
_APART_PX: Final = 18.0
_KINDS: Final = ("s0", "s2", "s3", "s4", "s1", "s5", "s6")
"""Colours of curves, in their order; further ones begin again."""


def legend(names: Sequence[str]) -> str:
    """Return the names of curves with their colours, in the order of the chart."""
    spans = (
        f'<span class="swatch {kind_of(k)}"></span>{escape(name)}' for k, name in enumerate(names)
    )
    return f"<p>{' &#160; '.join(spans)}</p>"


def kind_of(index: int) -> str:
    """Return the class of what belongs to a curve and is filled with its colour."""
    return _KINDS[index % len(_KINDS)]


def stroke_of(index: int) -> str:
    """Return the class of what is stroked with the colour of a curve."""
    return f"l{index % len(_KINDS)}"


def overlay(paths: Mapping[str, Sequence[Floats]], units: tuple[str, str], label: str) -> str:
    """Paths over each other with equal axes.

    Args:
        paths: by name, pieces (k, 2) without a gap; at least one point in all.
        units: of the axes.
        label: what it shows, for those who do not see it.
    """
    points = np.concatenate([piece for pieces in paths.values() for piece in pieces])
    low = points.min(axis=0).tolist()
    high = points.max(axis=0).tolist()
    axes = ChartAxes.equal((low[0], high[0]), (low[1], high[1]), _HIGHEST)
    drawn = []
    for k, (name, pieces) in enumerate(paths.items()):
        d = "".join(curve_of(axes, thinned(axes, piece)) for piece in pieces)
        drawn.append(
            f'<path class="curve {stroke_of(k)}" d="{d}"><title>{escape(name)}</title></path>'
        )
    return svg(axes.width, axes.height, label, axes.drawn(*units) + "".join(drawn))


def curves(
    x: Floats,
    values: Mapping[str, Floats],
    unit: str,
    label: str,
    *,
    longest_step: float,
    x_unit: str = "s",
    marks: Sequence[tuple[str, float]] = (),
    width: float = WIDTH,
    height: float = 190,
) -> str:
    """Values over time or way, interrupted where two neighbours are farther apart than
    ``longest_step``.

    Args:
        x: shape (n,), from 0.
        values: by name, shape (n,); what is not finite is not drawn.
        unit: of the values.
        label: what it shows, for those who do not see it.
        longest_step: a longer one is a gap.
        x_unit: of ``x``.
        marks: name and place of upright lines.
        width: of the chart.
        height: likewise.
    """
    together = np.concatenate([of_name[np.isfinite(of_name)] for of_name in values.values()])
    low = min(0.0, 1.05 * float(together.min(initial=0.0)))
    axes = ChartAxes(width, height, time_span(x), headroom(together), low)
    drawn = [_mark_lines(axes, marks)]
    for k, (name, of_name) in enumerate(values.items()):
        rows = np.column_stack((x, of_name))[np.isfinite(of_name)]
        cuts = np.flatnonzero(np.diff(rows[:, 0]) > longest_step) + 1
        d = "".join(curve_of(axes, _envelope(piece, axes.x_max)) for piece in np.split(rows, cuts))
        drawn.append(
            f'<path class="curve {stroke_of(k)}" d="{d}"><title>{escape(name)}</title></path>'
        )
    return svg(width, height, label, axes.drawn(x_unit, unit, y_ticks=6) + "".join(drawn))


def _mark_lines(axes: ChartAxes, marks: Sequence[tuple[str, float]]) -> str:
    """Return upright lines over the whole chart, with their names above where there is room."""
    low = axes.y(axes.y_min)
    high = axes.y(axes.y_max)
    drawn = []
    shown = -_APART_PX
    for name, at in marks:
        x = axes.x(at)
        drawn.append(
            f'<path class="mark" d="M{x} {high}V{low}"><title>{escape(name)}</title></path>'
        )
        if x - shown >= _APART_PX:
            drawn.append(
                f'<text class="tick" x="{x}" y="{high - 3}" '
                f'text-anchor="middle">{escape(name)}</text>'
            )
            shown = x
    return "".join(drawn)


def boxes(rows: Sequence[tuple[str, Floats]], unit: str, label: str) -> str:
    """Boxes from quartile to quartile with the median, and lines from 5 to 95 %, one below the
    other.

    Args:
        rows: name and values (n,), at least one, of each.
        unit: of the values.
        label: what it shows, for those who do not see it.
    """
    quantiles = [np.percentile(values, (5, 25, 50, 75, 95)).tolist() for _, values in rows]
    height = 26.0 * len(rows) + 44.0
    axes = ChartAxes(
        WIDTH, height, headroom(np.array([q[-1] for q in quantiles])), float(len(rows))
    )
    drawn = []
    for k, ((name, values), (least, low, middle, high, most)) in enumerate(
        zip(rows, quantiles, strict=True)
    ):
        y = axes.y(len(rows) - k - 0.5)
        title = (
            f"<title>{escape(name)}: {middle:.3g} {unit} (median), {most:.3g} (95 %), n = "
            f"{len(values)}</title>"
        )
        drawn.append(f'<path class="axis" d="M{axes.x(least)} {y}H{axes.x(most)}"/>')
        drawn.append(
            f'<rect class="box" x="{axes.x(low)}" y="{y - 8}" height="16"'
            f' width="{max(1.0, axes.x(high) - axes.x(low)):.2f}">{title}</rect>'
        )
        drawn.append(f'<path class="curve l1" d="M{axes.x(middle)} {y - 8}V{y + 8}"/>')
        drawn.append(
            f'<text class="tick" x="46" y="{y + 4}" text-anchor="end">{escape(name)}</text>'
        )
    return svg(WIDTH, height, label, axes.drawn(unit, "", y_ticks=0) + "".join(drawn))


def thinned(axes: ChartAxes, piece: Floats, apart: float = _LEAST_PX) -> Floats:
    """Return the points (k, 2) that are visibly apart, the last one included."""
    if not len(piece):
        return piece
    held = []
    at = (np.inf, np.inf)
    for row in piece.tolist():
        here = axes.x(row[0]), axes.y(row[1])
        if abs(here[0] - at[0]) + abs(here[1] - at[1]) >= apart:
            held.append(row)
            at = here
    return np.array([*held, piece[-1].tolist()])


def _envelope(piece: Floats, span_s: float) -> Floats:
    """Return the least and the largest value in each column of the chart, in the order of time."""
    if len(piece) <= 2 * _COLUMNS:
        return piece
    columns = np.minimum(piece[:, 0] / span_s * _COLUMNS, _COLUMNS - 1).astype(int)
    rows = []
    for part in np.split(np.arange(len(piece)), np.flatnonzero(np.diff(columns)) + 1):
        ends = {int(part[piece[part, 1].argmin()]), int(part[piece[part, 1].argmax()])}
        rows += sorted(ends)
    return piece[rows]


def curve_of(axes: ChartAxes, piece: Floats) -> str:
    """Return the path data of points (k, 2)."""
    if not len(piece):
        return ""
    return "M" + "L".join(f"{axes.x(x)} {axes.y(y)}" for x, y in piece.tolist())
