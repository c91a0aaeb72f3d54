"""An event camera: pixels that become brighter or darker, and when, from successive pictures.

Between two pictures the logarithm of each pixel's light is taken to change evenly (as ESIM does,
Rebecq et al. 2018); each time that it has gone a threshold away from where the pixel's last event
left it, there is an event. Changes that begin and end between two pictures are missed: use pictures
in which nothing moves by more than a pixel or two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.errors import RendererError
from vil_bridge.core.types import FloatArray

_DARK: Final = 1e-3
_LUMINANCE: Final = np.array([0.2126, 0.7152, 0.0722])
_LEAST_THRESHOLD: Final = 0.01
_LONG_AGO_NS: Final = np.int64(-(2**62))


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """Events of all pixels, the earliest first.

    Attributes:
        t_ns: int64 (n,). x, y: uint16 (n,), pixels from the top left.
        polarity: int8 (n,), 1 = brighter, -1 = darker.
    """

    t_ns: npt.NDArray[np.int64]
    x: npt.NDArray[np.uint16]
    y: npt.NDArray[np.uint16]
    polarity: npt.NDArray[np.int8]


@dataclass(slots=True, eq=False)
class _PixelState:
    """State of each pixel (h * w,).

    Its light now and at its last event, the time of that, its thresholds.
    """

    t_ns: int
    shape: tuple[int, int]
    light: FloatArray
    reference: FloatArray
    last_ns: npt.NDArray[np.int64]
    up: FloatArray
    down: FloatArray


class EventCamera:
    """Source of events from the pictures of one camera.

    Args:
        threshold_positive: change of the logarithm of light that makes a brighter event, and
        threshold_negative: a darker one; both positive.
        refractory_s: time after an event during which a pixel makes no other.
        sigma_threshold: standard deviation of the thresholds from pixel to pixel.
        seed: of these.

    Raises:
        RendererError: a threshold is not positive, or a time or deviation is negative.
    """

    def __init__(
        self,
        threshold_positive: float = 0.2,
        threshold_negative: float = 0.2,
        refractory_s: float = 0.0,
        sigma_threshold: float = 0.0,
        seed: int = 0,
    ) -> None:
        if not (
            min(threshold_positive, threshold_negative) > 0.0
            and min(refractory_s, sigma_threshold) >= 0.0
        ):
            raise RendererError(
                "an event camera needs positive thresholds, and no negative refractory "
                "time or deviation"
            )
        self._thresholds = threshold_positive, threshold_negative
        self._refractory_ns = math.ceil(refractory_s * 1e9)
        self._sigma = sigma_threshold
        self._seed = seed
        self._state: _PixelState | None = None

    def events(self, picture: npt.NDArray[np.uint8], t_ns: int) -> Events:
        """Return events since the previous picture.

        None for the first, after a change of size, or when time goes back.

        Args:
            picture: display values, gray (h, w) or RGB (h, w, 3).
            t_ns: its instant.
        """
        light = _log_light(picture)
        state = self._state
        if state is None or state.shape != light.shape or t_ns <= state.t_ns:
            self._state = self._opened(light, t_ns)
            return _sorted([])
        events = self._between(state, light.ravel(), t_ns)
        state.light = light.ravel()
        state.t_ns = t_ns
        return events

    def _opened(self, light: FloatArray, t_ns: int) -> _PixelState:
        rng = np.random.default_rng(self._seed)
        up, down = (
            np.maximum(rng.normal(mean, self._sigma, light.size), _LEAST_THRESHOLD)
            if self._sigma
            else np.full(light.size, mean)
            for mean in self._thresholds
        )
        seen = light.ravel()
        height, width = light.shape
        return _PixelState(
            t_ns, (height, width), seen, seen.copy(), np.full(seen.size, _LONG_AGO_NS), up, down
        )

    def _between(self, state: _PixelState, light: FloatArray, t_ns: int) -> Events:
        away = light - state.reference
        threshold = np.where(away > 0.0, state.up, state.down)
        counts = np.floor(np.abs(away) / threshold).astype(np.int64)
        pixels = np.flatnonzero(counts)
        step = (np.sign(away) * threshold)[pixels]
        level = state.reference[pixels] + step
        ns_per_light = (t_ns - state.t_ns) / (light - state.light)[pixels]
        made = []
        left = counts[pixels]
        while len(pixels):  # the first event of each pixel, then the second, ...
            late_ns = np.rint((level - state.light[pixels]) * ns_per_light).astype(np.int64)
            when_ns = np.clip(state.t_ns + late_ns, state.t_ns, t_ns)
            ready = when_ns - state.last_ns[pixels] >= self._refractory_ns
            state.last_ns[pixels[ready]] = when_ns[ready]
            made.append((when_ns[ready], pixels[ready], np.sign(step[ready]), state.shape[1]))
            state.reference[pixels] = level
            left -= 1
            more = left > 0
            pixels, step, level, ns_per_light = (
                pixels[more],
                step[more],
                (level + step)[more],
                ns_per_light[more],
            )
            left = left[more]
        return _sorted(made)


def _sorted(
    made: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.intp], FloatArray, int]],
) -> Events:
    """Return events of instants, pixel numbers, polarities and the picture's width, in order of
    time.
    """
    if not made:
        return Events(
            np.zeros(0, np.int64),
            np.zeros(0, np.uint16),
            np.zeros(0, np.uint16),
            np.zeros(0, np.int8),
        )
    t_ns = np.concatenate([part[0] for part in made])
    pixel = np.concatenate([part[1] for part in made])
    polarity = np.concatenate([part[2] for part in made])
    order = np.lexsort((pixel, t_ns))
    y, x = np.divmod(pixel[order], made[0][3])
    return Events(
        t_ns[order], x.astype(np.uint16), y.astype(np.uint16), polarity[order].astype(np.int8)
    )


def _log_light(picture: npt.NDArray[np.uint8]) -> FloatArray:
    """Return the logarithm of linear light (h, w); the darkest is raised, so that it has one."""
    linear, logarithm = _tables()
    if picture.ndim == 2:
        return logarithm[picture]
    return np.asarray(np.log(_DARK + linear[picture] @ _LUMINANCE))


@lru_cache(maxsize=1)
def _tables() -> tuple[FloatArray, FloatArray]:
    """Return the linear light of each display level, and its logarithm, (256,) each."""
    c = np.arange(256) / 255.0
    linear = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
    return linear, np.log(_DARK + linear)
