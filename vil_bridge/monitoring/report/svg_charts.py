"""Charts as inline SVG: no scripts, colours from the page's style."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

import numpy as np
import numpy.typing as npt

WIDTH: Final = 940
_LEFT: Final = 52
_RIGHT: Final = 12
_TOP: Final = 14
_BOTTOM: Final = 26
_BINS: Final = 48
_COLUMNS: Final = 94
_FEW: Final = 400
_DIGIT: Final = 7.0
"""Width of a digit."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ChartAxes:
    """A plot area and the values at its edges.

    Attributes:
        left, bottom: borders that the labels of the axes need.
    """

    width: float
    height: float
    x_max: float
    y_max: float
    y_min: float = 0.0
    x_min: float = 0.0
    left: float = _LEFT
    bottom: float = _BOTTOM

    def x(self, value: float) -> float:
        """Return the abscissa of a value."""
        share = (value - self.x_min) / (self.x_max - self.x_min)
        return round(self.left + (self.width - self.left - _RIGHT) * share, 2)

    def y(self, value: float) -> float:
        """Return the ordinate of a value."""
        share = (value - self.y_min) / (self.y_max - self.y_min)
        return round(self.height - self.bottom - (self.height - _TOP - self.bottom) * share, 2)

    @classmethod
    def equal(
        cls,
        x: tuple[float, float],
        y: tuple[float, float],
        highest: float,
        width: float = WIDTH,
        borders: tuple[float, float] = (_LEFT, _BOTTOM),
    ) -> ChartAxes:
        """Return axes of one scale that hold both ranges.

        The chart is as high as it needs, up to ``highest``.

        Args:
            x: range of the abscissae.
            y: range of the ordinates.
            highest: height at most.
            width: of the chart.
            borders: left and bottom, for the labels of the axes.
        """
        left, bottom = borders
        spans = [max(1.06 * (high - low), 1e-3) for low, high in (x, y)]
        inner = width - left - _RIGHT
        scale = min(inner / spans[0], (highest - _TOP - bottom) / spans[1])
        middle_x = 0.5 * sum(x)
        middle_y = 0.5 * sum(y)
        half_x = 0.5 * inner / scale
        half_y = 0.5 * spans[1]
        height = spans[1] * scale + _TOP + bottom
        x_ends = (middle_x - half_x, middle_x + half_x)
        y_ends = (middle_y - half_y, middle_y + half_y)
        return cls(width, height, x_ends[1], y_ends[1], y_ends[0], x_ends[0], left, bottom)

    def drawn(self, x_unit: str, y_unit: str, *, y_ticks: int = 4) -> str:
        """Grid, tick labels and units; a label that would lie on a unit is left out."""
        parts = []
        for value in _ticks(self.y_min, self.y_max, y_ticks) if y_ticks else ():
            y = self.y(value)
            parts.append(f'<path class="grid" d="M{self.left} {y}H{self.width - _RIGHT}"/>')
            if not y_unit or y > _TOP + 6:
                parts.append(
                    f'<text class="tick" x="{self.left - 6}" y="{y + 4}" '
                    f'text-anchor="end">{value:g}</text>'
                )
        low = self.height - self.bottom
        end = self.width - _RIGHT
        parts.append(f'<path class="axis" d="M{self.left} {low}H{end}"/>')
        for value in _ticks(self.x_min, self.x_max, max(2, int(self.width / 75))):
            x = self.x(value)
            label = f"{value:g}"
            if not x_unit or x + _DIGIT * (0.5 * len(label) + len(x_unit) + 1) < end:
                parts.append(
                    f'<text class="tick" x="{x}" y="{low + 16}" text-anchor="middle">{label}</text>'
                )
        parts.append(
            f'<text class="tick" x="{end}" y="{low + 16}" text-anchor="end">{x_unit}</text>'
        )
        parts.append(
            f'<text class="tick" x="{self.left - 6}" y="10" text-anchor="end">{y_unit}</text>'
        )
        return "".join(parts)


def timeline(
    t_s: Floats,
    values: Floats,
    unit: str,
    label: str,
    *,
    gaps: Sequence[tuple[float, float, str]] = (),
    height: float = 210,
) -> str:
    """One dot per frame; gaps as bands.

    Args:
        t_s: shape (n,), at least 0.
        values: shape (n,); NaN has no dot.
        unit: of the values.
        label: what it shows, for those who do not see it.
        gaps: begin, end and a sentence of each.
        height: of the chart.
    """
    known = values[np.isfinite(values)]
    low = min(0.0, float(known.min(initial=0.0)))
    axes = ChartAxes(WIDTH, height, time_span(t_s), headroom(known), low)
    bands = "".join(
        f'<rect class="gap" x="{axes.x(begin)}" y="{_TOP}" '
        f'width="{max(1.5, axes.x(end) - axes.x(begin)):.2f}"'
        f' height="{height - _TOP - _BOTTOM}"><title>{escape(text)}</title></rect>'
        for begin, end, text in gaps
    )
    dots = "".join(
        f"M{axes.x(t)} {axes.y(v)}h0"
        for t, v in zip(t_s.tolist(), values.tolist(), strict=True)
        if math.isfinite(v)
    )
    kind = "dots few" if len(known) < _FEW else "dots"
    return svg(
        WIDTH, height, label, axes.drawn("s", unit) + bands + f'<path class="{kind}" d="{dots}"/>'
    )


def stack(
    t_s: Floats, parts: Mapping[str, Floats], unit: str, label: str, *, height: float = 230
) -> str:
    """Means of parts over time, one on the other: their sum is the mean of the total."""
    x_max = time_span(t_s)
    columns = min(_COLUMNS, max(1, len(t_s) // 4))
    of_frame = np.minimum((t_s / x_max * columns).astype(int), columns - 1)
    counts = np.bincount(of_frame, minlength=columns)
    means = [
        np.bincount(of_frame, values, minlength=columns) / np.maximum(counts, 1)
        for values in parts.values()
    ]
    axes = ChartAxes(WIDTH, height, x_max, headroom(np.sum(means, axis=0)))
    width = (axes.x(x_max) - axes.x(0.0)) / columns
    drawn = []
    for column in np.flatnonzero(counts):
        base = 0.0
        for k, (name, mean) in enumerate(zip(parts, means, strict=True)):
            value = max(0.0, float(mean[column]))
            low = axes.y(base)
            high = axes.y(base + value)
            drawn.append(
                f'<rect class="s{k}" x="{_LEFT + width * column:.2f}" y="{high:.2f}" '
                f'width="{width * 0.92:.2f}"'
                f' height="{low - high:.2f}"><title>{escape(name)}: {value:.2f} '
                f"{unit}</title></rect>"
            )
            base += value
    return svg(WIDTH, height, label, axes.drawn("s", unit) + "".join(drawn))


def histogram(
    values: Floats, kind: str, label: str, marks: Sequence[tuple[str, float]], *, unit: str = "ms"
) -> str:
    """Draw a histogram of the values, up to a little beyond the last mark.

    Args:
        values: shape (n,), at least one.
        kind: class of the bars.
        label: what it shows.
        marks: name and value of what is marked, in rising order.
        unit: of the values.
    """
    width = 300
    height = 150
    top = max(1.25 * marks[-1][1], 1e-3)
    counts, edges = np.histogram(np.clip(values, 0.0, top), bins=_BINS, range=(0.0, top))
    axes = ChartAxes(width, height, top, float(counts.max()) * 1.1)
    column = axes.x(edges[1]) - axes.x(0.0)
    drawn = [
        f'<rect class="{kind}" x="{axes.x(begin)}" y="{axes.y(count)}" width="{column * 0.9:.2f}"'
        f' height="{axes.y(0.0) - axes.y(count):.2f}">'
        f"<title>{begin:.4g} to {begin + edges[1]:.4g} {unit}: {count}</title></rect>"
        for begin, count in zip(edges[:-1].tolist(), counts.tolist(), strict=True)
        if count
    ]
    for name, value in marks:
        x = axes.x(min(value, top))
        drawn.append(
            f'<path class="mark" d="M{x} {_TOP}V{height - _BOTTOM}"><title>{name} '
            f"{value:.4g} {unit}</title></path>"
        )
    return svg(width, height, label, axes.drawn(unit, "", y_ticks=2) + "".join(drawn))


def bars(counts: Sequence[tuple[str, int]], label: str) -> str:
    """Horizontal bars with their names and numbers."""
    most = max(count for _, count in counts)
    drawn = []
    for i, (name, count) in enumerate(counts):
        y = 24 * i
        width = max(2.0, 480.0 * count / most)
        drawn.append(
            f'<text class="name" x="330" y="{y + 16}" text-anchor="end">{escape(name)}</text>'
        )
        drawn.append(
            f'<rect class="drop" x="340" y="{y + 4}" width="{width:.1f}" height="16" rx="2"/>'
        )
        drawn.append(f'<text class="name" x="{346 + width:.1f}" y="{y + 16}">{count}</text>')
    return svg(WIDTH, 24 * len(counts) + 6, label, "".join(drawn))


def svg(width: float, height: float, label: str, content: str) -> str:
    """Return the element; ``label`` says what it shows to those who do not see it."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img"'
        f' aria-label="{escape(label)}">{content}</svg>'
    )


def time_span(t_s: Floats) -> float:
    """Return the last time, at least a millisecond."""
    return max(float(t_s[-1]) if len(t_s) else 0.0, 1e-3)


def headroom(values: Floats) -> float:
    """Return a little more than the largest value."""
    return max(float(values.max(initial=0.0)) * 1.05, 1e-3)


def _ticks(low: float, high: float, count: int) -> list[float]:
    """Round numbers between two values, about so many."""
    raw = (high - low) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= raw)
    first = math.ceil(low / step - 1e-9)
    return [round(k * step, 12) for k in range(first, math.floor(high / step + 1e-9) + 1)]
