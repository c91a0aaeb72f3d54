"""Effects of the ground, of other vehicles and of altitude: disturbances of a fleet."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np

from vil_bridge.core.elementary import exp
from vil_bridge.core.types import FloatArray
from vil_simulation.vehicles.disturbances import ENVIRONMENT
from vil_simulation.vehicles.environment.atmosphere import density_kgpm3
from vil_simulation.vehicles.environment.earth import Compat
from vil_simulation.vehicles.environment.geodesy import GeoOrigin
from vil_simulation.vehicles.environment.gravity import gravity_mps2
from vil_simulation.vehicles.layout import RIGID_BODY, StateLayout

_BODY: Final = StateLayout(*RIGID_BODY)
_P: Final = _BODY["p_world_m"]
_Q: Final = _BODY["q_world_body"]
_FORCE: Final = ENVIRONMENT["force_world_n"]
_DENSITY: Final = ENVIRONMENT["density_kgpm3"]
_GRAVITY: Final = ENVIRONMENT["gravity_mps2"]
_THRUST_FACTOR: Final = ENVIRONMENT["thrust_factor"]

_MOST_FITTED: Final = 4.0 / 15.0
_ROWS: Final = 256
_FARTHEST_M: Final = 1e9


class GroundEffect:
    """More thrust for the same power near the ground, while the vehicle is upright.

    With r the rotor's radius and z the height of the rotors above ground:

    * ``form="cheeseman-bennett"``: T / T_free = 1 / (1 - (r / 4z)^2) (ARC R&M 3021, 1955), held
      below z = r / 2, where the theory ends, at 4 / 3.
    * ``form="fitted"``: 1 + G (r / 4z)^2 as in gym-pybullet-drones, held at 19 / 15. Its G of 11.37
      was fitted to a Crazyflie, whose four rotors work as one larger rotor.

    Args:
        rotor_radius_m: r. rotor_height_m: of the rotors above the vehicle's origin. ground_z_m: of
            the ground.
        fitted_gain: G.

    Raises:
        ValueError: the radius or the gain is not positive.
    """

    def __init__(
        self,
        rotor_radius_m: float,
        *,
        rotor_height_m: float = 0.0,
        ground_z_m: float = 0.0,
        form: Literal["cheeseman-bennett", "fitted"] = "cheeseman-bennett",
        fitted_gain: float = 11.36859,
    ) -> None:
        if not (rotor_radius_m > 0.0 and fitted_gain > 0.0):
            raise ValueError(
                f"rotor_radius_m and fitted_gain must be positive, got {rotor_radius_m}, "
                f"{fitted_gain}"
            )
        self._radius_m = rotor_radius_m
        self._lift_m = rotor_height_m - ground_z_m
        self._gain = 1.0 if form == "cheeseman-bennett" else fitted_gain
        self._fitted = form == "fitted"

    # The port.
    def apply(
        self,
        step: int,  # noqa: ARG002
        dt_s: float,  # noqa: ARG002
        x: FloatArray,
        around: FloatArray,
    ) -> None:
        """Multiply the thrust factor."""
        q = x[:, _Q]
        upright = q[:, 0] ** 2 + q[:, 1] ** 2 < 0.5
        z = np.maximum(x[:, _P][:, 2] + self._lift_m, 0.5 * self._radius_m)
        near = (self._radius_m / (4.0 * z)) ** 2
        if self._fitted:
            factor = 1.0 + np.minimum(self._gain * near, _MOST_FITTED)
        else:
            factor = 1.0 / (1.0 - near)
        around[:, _THRUST_FACTOR] *= np.where(upright, factor, 1.0)[:, None]


class Downwash:
    """Force on a vehicle in the wake of those above it, as in gym-pybullet-drones.

    From a vehicle dz higher and d away horizontally, downwards: a (r / 4 dz)^2 exp(-(d / (b dz +
    c))^2 / 2). Its column is as narrow as a rotor at dz = (r - c) / b (0.83 m for a Crazyflie) and
    has no width a little nearer, while the force grows without bound: nearer than that, the force
    is what it is there.

    Defaults are the fit to Crazyflies. All pairs are looked at: 10,000 for 100 vehicles.

    Args:
        rotor_radius_m: r. force_n: a. spread: b. offset_m: c.

    Raises:
        ValueError: the radius, the force or the spread is not positive, or the column is never as
            wide as a rotor.
    """

    def __init__(
        self,
        rotor_radius_m: float = 0.0231348,
        *,
        force_n: float = 2267.18,
        spread: float = 0.16,
        offset_m: float = -0.11,
    ) -> None:
        if not (
            rotor_radius_m > 0.0 and force_n > 0.0 and spread > 0.0 and offset_m < rotor_radius_m
        ):
            raise ValueError(
                "rotor_radius_m, force_n and spread must be positive, offset_m less than "
                "rotor_radius_m"
            )
        self._radius_m = rotor_radius_m
        self._force_n = force_n
        self._spread = spread
        self._offset_m = offset_m
        self._nearest_m = (rotor_radius_m - offset_m) / spread

    # The port.
    def apply(
        self,
        step: int,  # noqa: ARG002
        dt_s: float,  # noqa: ARG002
        x: FloatArray,
        around: FloatArray,
    ) -> None:
        """Add the forces."""
        p = np.clip(x[:, _P], -_FARTHEST_M, _FARTHEST_M)  # a lost vehicle pushes no other
        for start in range(0, len(p), _ROWS):  # bounds the memory
            rows = slice(start, start + _ROWS)
            dx, dy, dz = (p[None, :, k] - p[rows, None, k] for k in range(3))
            below = np.maximum(dz, self._nearest_m)
            width = self._spread * below + self._offset_m
            size = self._force_n * (self._radius_m / (4.0 * below)) ** 2
            wash = size * exp(-0.5 * (dx * dx + dy * dy) / (width * width))
            around[rows, _FORCE][:, 2] -= np.where((dz > 0.0) & (wash > 0.0), wash, 0.0).sum(axis=1)


class StandardAir:
    """Density of the air and gravity by altitude, over a place on Earth.

    They take the place of what ``around`` holds; Earth's roundness is looked at, the sea level is
    the ellipsoid.
    """

    def __init__(self, origin: GeoOrigin, compat: Compat = None) -> None:
        self._origin = origin
        self._compat: Compat = compat

    # The port.
    def apply(
        self,
        step: int,  # noqa: ARG002
        dt_s: float,  # noqa: ARG002
        x: FloatArray,
        around: FloatArray,
    ) -> None:
        """Set density and gravity."""
        h = self._origin.height_m(x[:, _P])
        around[:, _DENSITY] = density_kgpm3(h, self._compat)[:, None]
        around[:, _GRAVITY] = gravity_mps2(h, self._compat)[:, None]
