"""Maps of courses with paths coloured by a value, planes of gates with points, and means with
deviations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

import numpy as np

from vil_bridge.monitoring.report.svg_charts import ChartAxes, Floats, svg
from vil_bridge.monitoring.report.svg_paths import curve_of, kind_of, stroke_of, thinned

NARROW: Final = 480
"""Width of charts that stand in two columns, and are legible on a phone."""
_PLANE: Final = 230
_HIGHEST: Final = 620.0
_SHADES: Final = 8
_GRID_M: Final = 0.5
_ROW: Final = 40.0


@dataclass(frozen=True, slots=True, eq=False)
class MapPath:
    """Path that is coloured by a value.

    Attributes:
        p_m: (k, 2). values: (k,). is_main: drawn broadly, above the others.
    """

    p_m: Floats
    values: Floats
    is_main: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class MapGate:
    """Gate from above.

    Attributes:
        name: drawn next to it; empty = a gate that stands in the background.
        corners_m: of the opening, (4, 2). forward: direction of flight, (2,).
    """

    name: str
    corners_m: Floats
    forward: Floats


@dataclass(frozen=True, slots=True, eq=False)
class MapMark:
    """Cross at a place.

    Attributes:
        p_m: (2,). title: what happened there.
    """

    p_m: Floats
    title: str


def course_map(
    gates: Sequence[MapGate],
    paths: Sequence[MapPath],
    label: str,
    *,
    most: float = 1.0,
    marks: Sequence[MapMark] = (),
    poles: Sequence[tuple[Floats, float]] = (),
    start_m: Floats | None = None,
) -> str:
    """Gates, poles and paths from above, with equal axes.

    Args:
        gates: at least one.
        paths: coloured by value in eight shades.
        label: what it shows, for those who do not see it.
        most: value of the last shade; the first one begins at 0.
        marks: crosses, above everything.
        poles: places (2,) and radii.
        start_m: place of the start, (2,); None = not drawn.
    """
    places = (
        [gate.corners_m for gate in gates]
        + [path.p_m for path in paths]
        + [mark.p_m[None] for mark in marks]
    )
    if start_m is not None:
        places.append(start_m[None])
    points = np.concatenate(places)
    low = points.min(axis=0).tolist()
    high = points.max(axis=0).tolist()
    axes = ChartAxes.equal((low[0], high[0]), (low[1], high[1]), _HIGHEST, NARROW)
    drawn = [axes.drawn("x, m", "y, m")]
    drawn += [
        f'<g class="thin">{_shades(axes, [path for path in paths if not path.is_main], most)}</g>'
    ]
    drawn += [_gate(axes, gate) for gate in sorted(gates, key=lambda gate: bool(gate.name))]
    scale = axes.x(1.0) - axes.x(0.0)
    drawn += [
        f'<circle class="pole" cx="{axes.x(p[0])}" cy="{axes.y(p[1])}" '
        f'r="{max(2.0, scale * radius):.2f}"/>'
        for p, radius in poles
    ]
    drawn.append(_shades(axes, [path for path in paths if path.is_main], most))
    if start_m is not None:
        drawn.append(
            f'<circle class="start" cx="{axes.x(start_m[0])}" cy="{axes.y(start_m[1])}" r="4"/>'
        )
    drawn += [_cross(axes, mark.p_m, mark.title) for mark in marks]
    return svg(axes.width, axes.height, label, "".join(drawn))


def shades_legend(most: float, unit: str) -> str:
    """Return the shades of a map from 0 to ``most``."""
    spans = "".join(f'<span class="shade v{k}"></span>' for k in range(_SHADES))
    return f'<p class="soft">0 {spans} {most:.3g} {unit}</p>'


def _shades(axes: ChartAxes, paths: Sequence[MapPath], most: float) -> str:
    """Return one curve a shade, from the pieces of all paths."""
    parts: list[list[str]] = [[] for _ in range(_SHADES)]
    for path in paths:
        apart_px = 3.0
        if path.is_main:
            apart_px = 1.5
        rows = thinned(axes, np.column_stack((path.p_m, path.values)), apart_px)
        between = 0.5 * (rows[1:, 2] + rows[:-1, 2])
        shade = np.clip(_SHADES * between / most, 0, _SHADES - 1).astype(int)
        for piece in np.split(np.arange(len(shade)), np.flatnonzero(np.diff(shade)) + 1):
            if len(piece):
                parts[shade[piece[0]]].append(curve_of(axes, rows[piece[0] : piece[-1] + 2, :2]))
    return "".join(
        f'<path class="curve v{k}" d="{"".join(part)}"/>' for k, part in enumerate(parts) if part
    )


def _gate(axes: ChartAxes, gate: MapGate) -> str:
    corners = [(axes.x(x), axes.y(y)) for x, y in gate.corners_m.tolist()]
    outline = "M" + "L".join(f"{x} {y}" for x, y in corners) + "Z"
    if not gate.name:
        return f'<path class="gate back" d="{outline}"/>'
    middle = np.mean(corners, axis=0)
    corner = np.array(corners[0])
    size = float(np.hypot(*gate.forward)) or 1.0
    ahead = middle + 9.0 * gate.forward / size * (1.0, -1.0)
    away = corner - middle
    at = corner + 11.0 * away / max(float(np.hypot(*away)), 1e-6) + (0.0, 4.0)
    return (
        f'<path class="gate" d="{outline}M{middle[0]:.2f} {middle[1]:.2f}L{ahead[0]:.2f} '
        f'{ahead[1]:.2f}"/>'
        f'<text class="tag" x="{at[0]:.2f}" y="{at[1]:.2f}" '
        f'text-anchor="middle">{escape(gate.name)}</text>'
    )


def _cross(axes: ChartAxes, place: Floats, title: str) -> str:
    x = axes.x(place[0])
    y = axes.y(place[1])
    return (
        f'<path class="cross" d="M{x - 4} {y - 4}l8 8m0 -8l-8 '
        f'8"><title>{escape(title)}</title></path>'
    )


def gate_plane(
    points: Mapping[str, Floats],
    marks: Sequence[MapMark],
    size_m: tuple[float, float],
    label: str,
    *,
    margin_m: float = 0.0,
    bar_m: float = 0.0,
) -> str:
    """Crossings in the plane of a gate, as the pilot sees it, with a grid of 0.5 m.

    Args:
        points: by group, (n, 2): to the right and up from the centre, metres.
        marks: crosses, likewise.
        size_m: width and height of the opening.
        label: what it shows, for those who do not see it.
        margin_m: distance to the edge at which a pass counts.
        bar_m: width of the frame around the opening.
    """
    half = 0.5 * size_m[0] + bar_m, 0.5 * size_m[1] + bar_m
    drawn_at = np.concatenate(
        [*points.values(), *(mark.p_m[None] for mark in marks), np.array([half])]
    )
    far_x, far_y = np.abs(drawn_at).max(axis=0).tolist()
    axes = ChartAxes.equal((-far_x, far_x), (-far_y, far_y), float(_PLANE), _PLANE, (12.0, 14.0))
    upright, level = (
        _GRID_M * np.arange(-int(far / _GRID_M), far / _GRID_M) for far in (far_x, far_y)
    )
    drawn = [
        f'<path class="grid" d="M{axes.x(x)} {axes.y(-far_y)}V{axes.y(far_y)}"/>' for x in upright
    ]
    drawn += [
        f'<path class="grid" d="M{axes.x(-far_x)} {axes.y(y)}H{axes.x(far_x)}"/>' for y in level
    ]
    frame = _rectangle(axes, *half)
    opening = _rectangle(axes, 0.5 * size_m[0], 0.5 * size_m[1])
    drawn.append(
        f'<path class="bar" fill-rule="evenodd" d="{frame}{opening}"/><path class="edge" '
        f'd="{opening}"/>'
    )
    if margin_m:
        counted = _rectangle(axes, 0.5 * size_m[0] - margin_m, 0.5 * size_m[1] - margin_m)
        drawn.append(f'<path class="mark bare" d="{counted}"/>')
    for k, (name, of_name) in enumerate(points.items()):
        d = "".join(f"M{axes.x(x)} {axes.y(y)}h0" for x, y in of_name.tolist())
        drawn.append(
            f'<path class="dots few {stroke_of(k)}" d="{d}"><title>{escape(name)}</title></path>'
        )
    drawn += [_cross(axes, mark.p_m, mark.title) for mark in marks]
    return svg(axes.width, axes.height, label, "".join(drawn))


def _rectangle(axes: ChartAxes, half_x: float, half_y: float) -> str:
    left = axes.x(-half_x)
    right = axes.x(half_x)
    low = axes.y(-half_y)
    high = axes.y(half_y)
    return f"M{left} {low}H{right}V{high}H{left}Z"


def means(rows: Sequence[tuple[str, Floats]], unit: str, label: str) -> str:
    """Values as dots, their mean and sample deviation as a bar over them, one group below the
    other.

    Args:
        rows: name and values (n,) of each; without values only the name is drawn.
        unit: of the values.
        label: what it shows, for those who do not see it.
    """
    ends = [_spread_of(values) for _, values in rows]
    together = np.concatenate([*(values for _, values in rows), *ends])
    height = _ROW * len(rows) + 44.0
    low = 0.0
    high = 1.0
    if len(together):
        low = float(together.min())
        high = float(together.max())
    span = max(high - low, 0.02 * abs(high), 1.0)
    least = low - 0.15 * span
    if low < 3.0 * span:
        least = min(low - 0.05 * span, 0.0)
    axes = ChartAxes(NARROW, height, high + 0.05 * span, float(len(rows)), x_min=least, left=12.0)
    drawn = [axes.drawn(unit, "", y_ticks=0)]
    for k, ((name, values), spread) in enumerate(zip(rows, ends, strict=True)):
        y = axes.y(len(rows) - k - 0.66)
        drawn.append(f'<text class="name" x="12" y="{y - 13:.2f}">{escape(name)}</text>')
        if not len(values):
            continue
        d = "".join(f"M{axes.x(value)} {y + 9:.2f}h0" for value in values.tolist())
        drawn.append(f'<path class="dots few faint {stroke_of(k)}" d="{d}"/>')
        begin, mean, end = spread.tolist()
        title = f"<title>{mean:.4g} &#177; {end - mean:.3g} {unit}</title>"
        way = f"M{axes.x(begin)} {y}H{axes.x(end)}M{axes.x(mean)} {y - 6:.2f}v12"
        drawn.append(f'<path class="spread" d="{way}">{title}</path>')
    return svg(NARROW, height, label, "".join(drawn))


def _spread_of(values: Floats) -> Floats:
    """Return mean less deviation, mean, mean and deviation of values (n,); none without values."""
    if not len(values):
        return np.zeros(0)
    mean = values.mean()
    deviation = values.std(ddof=1) if len(values) > 1 else 0.0
    return np.array((mean - deviation, mean, mean + deviation))


def shares(rows: Sequence[tuple[str, int, int]], label: str) -> str:
    """Bars of how many of how many, with their names above.

    Args:
        rows: name, part and whole, at least 1, of each.
        label: what it shows, for those who do not see it.
    """
    drawn = []
    full = NARROW - 110.0
    for k, (name, part, whole) in enumerate(rows):
        y = _ROW * k
        drawn.append(f'<text class="name" x="12" y="{y + 13}">{escape(name)}</text>')
        drawn.append(f'<rect class="rest" x="12" y="{y + 19}" width="{full}" height="14" rx="2"/>')
        width = full * part / whole
        drawn.append(
            f'<rect class="{kind_of(k)}" x="12" y="{y + 19}" width="{width:.2f}" '
            'height="14" rx="2"/>'
        )
        drawn.append(f'<text class="name" x="{full + 20}" y="{y + 31}">{part} of {whole}</text>')
    return svg(NARROW, _ROW * len(rows) + 6, label, "".join(drawn))
