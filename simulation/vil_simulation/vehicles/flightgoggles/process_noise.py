"""Process noise of FlightGoggles' multicopter.

Random force and moment, each constant within a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Final

from vil_bridge.core.geometry import q_conj, q_rotate
from vil_bridge.core.random.noise import NoiseStream
from vil_bridge.core.types import FloatArray
from vil_simulation.vehicles.disturbances import ENVIRONMENT
from vil_simulation.vehicles.flightgoggles.model import Compat
from vil_simulation.vehicles.model import TrueState
from vil_simulation.vehicles.multicopter import MulticopterParameters

_FORCE: Final = ENVIRONMENT["force_world_n"]
_TORQUE: Final = ENVIRONMENT["torque_body_nm"]
_STREAM: Final = 2000


class ProcessNoise:
    """White force (world axes) and moment (body axes) of the densities that the parameters state.

    A disturbance.

    Args:
        seed, stream: of the numbers (:class:`~vil_bridge.core.random.noise.NoiseStream`).
        vehicles: identities of the rows, to which the numbers belong; None = 0, 1, 2...
        compat: ``flightgoggles``: the force of a step is the one drawn at the end of the step
            before, none in the first; and :meth:`shown` gives the accelerometer that the original
            has.
    """

    def __init__(
        self,
        parameters: MulticopterParameters,
        seed: int,
        *,
        stream: int = _STREAM,
        vehicles: Sequence[int] | None = None,
        compat: Compat | None = None,
    ) -> None:
        self._mass_kg: Final = parameters.mass_kg
        self._force: Final = sqrt(parameters.force_noise_n2s)
        self._moment: Final = sqrt(parameters.moment_noise_n2m2s)
        self._noise: Final = NoiseStream(seed, stream)
        self._vehicles: Final = vehicles
        self._lag: Final = 0 if compat is None else 1

    def apply(self, step: int, dt_s: float, x: FloatArray, around: FloatArray) -> None:
        """Add this step's force and moment, of variance density / dt_s."""
        around[:, _TORQUE] += self._moment / sqrt(dt_s) * self._drawn(step, len(x))[:, 3:]
        if step >= self._lag:
            around[:, _FORCE] += self._force_drawn(step - self._lag, len(x)) / sqrt(dt_s)

    def shown(self, truth: TrueState, step: int, dt_s: float) -> TrueState:
        """Return what the original's accelerometer takes for the truth, after ``step`` steps, 1 or
        more, in compat.

        In place of the force that acted it shows the next one, without the division by sqrt(dt_s):
        too small by 31 at 960 Hz. Without compat the truth itself is right, and this changes
        nothing.
        """
        if not self._lag:
            return truth
        n = len(truth.f_body_mps2)
        wrong = self._force_drawn(step - 1, n)
        if step > 1:
            wrong -= self._force_drawn(step - 2, n) / sqrt(dt_s)
        return truth._replace(
            f_body_mps2=truth.f_body_mps2
            + q_rotate(q_conj(truth.q_world_body), wrong / self._mass_kg)
        )

    def _force_drawn(self, step: int, n: int) -> FloatArray:
        return self._force * self._drawn(step, n)[:, :3]

    def _drawn(self, step: int, n: int) -> FloatArray:
        return self._noise.normals(step, n if self._vehicles is None else self._vehicles, 6)
