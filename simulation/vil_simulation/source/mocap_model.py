"""The vehicles as a motion-capture system would see them: late, noisy, now and then not at all."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
import numpy as np

from vil_bridge.core.types import FloatArray, SourceFrame
from vil_simulation.vehicles.model import TrueState
from vil_simulation.vehicles.sensors.mocap import Mocap, MocapParameters

_ALL_HZ: Final = 20_000.0


def mocap_parameters(given: Mapping[str, Any]) -> MocapParameters:
    """Return parameters by their names.

    Raises:
        ValueError: one is unknown or wrong; says which there are.
    """
    known = [field.name for field in dataclasses.fields(MocapParameters)]
    for name in given:
        if name not in known:
            raise ValueError(f"mocap has no parameter {name!r}; known: {', '.join(known)}")
    try:
        found = msgspec.convert(given, MocapParameters)
        Mocap(1, found)
    except ValueError as exc:
        raise ValueError(f"mocap: {exc}") from None
    return found


class MocapModel:
    """Takes exact poses, one for each of the source's frames, and gives what arrives of them."""

    def __init__(self, vehicles: int, given: Mapping[str, Any], seed: int) -> None:
        wanted = mocap_parameters(given)
        # Frames are due after whole steps, not on the sensor's own grid: it takes all of them, each
        # as noisy as wished.
        quieter = math.sqrt(wanted.rate_hz / _ALL_HZ)
        every = dataclasses.replace(
            wanted,
            rate_hz=_ALL_HZ,
            position_m=quieter * wanted.position_m,
            attitude_rad=quieter * wanted.attitude_rad,
        )
        self._mocap: Final = Mocap(vehicles, every, seed=seed)

    def frames(
        self, t_ns: int, states: FloatArray, source: str, subjects: tuple[str, ...]
    ) -> Iterator[SourceFrame]:
        """Yield the frames that have arrived by a simulation time with bodies (n, 13).

        Times are simulation time.
        """
        none = np.zeros((len(states), 3))
        p_m = states[:, :3]
        v_mps = states[:, 3:6]
        q_xyzw = states[:, 6:10]
        w_radps = states[:, 10:]
        truth = TrueState(t_ns, p_m, v_mps, none, q_xyzw, w_radps, none, none, none[:, :0])
        reading = self._mocap.sample(truth)
        while reading is not None:
            yield reading.source_frame(source, subjects)
            reading = self._mocap.further()
