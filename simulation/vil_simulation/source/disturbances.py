"""Disturbances of vehicles by the configuration."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from vil_bridge.core.types import FloatArray
from vil_simulation.source.vehicle_config import VehicleConfig
from vil_simulation.vehicles.disturbances import ENVIRONMENT, Disturbance
from vil_simulation.vehicles.environment.effects import Downwash, GroundEffect
from vil_simulation.vehicles.environment.wind import ConstantWind, DrydenGusts


class ImposedAir:
    """Mean wind and a force that are set at run time.

    Attributes:
        wind_mps, force_n: of each vehicle, (n, 3), room frame.
    """

    def __init__(self, wind_mps: tuple[float, float, float], vehicles: int) -> None:
        self.wind_mps = np.tile(wind_mps, (vehicles, 1))
        self.force_n = np.zeros((vehicles, 3))

    # The port.
    def apply(
        self,
        step: int,  # noqa: ARG002
        dt_s: float,  # noqa: ARG002
        x: FloatArray,  # noqa: ARG002
        around: FloatArray,
    ) -> None:
        """Add the wind and the force."""
        around[:, ENVIRONMENT["wind_world_mps"]] += self.wind_mps
        around[:, ENVIRONMENT["force_world_n"]] += self.force_n


def disturbances_of(
    config: VehicleConfig, vehicles: npt.NDArray[np.int64], seed: int, imposed: ImposedAir | None
) -> list[Disturbance]:
    """Return wind, gusts, ground effect and downwash of a group of vehicles.

    Args:
        config: what they share.
        vehicles: their numbers in the source, to which their random numbers belong.
        seed: of the source.
        imposed: takes the place of the mean wind; None = nothing was set at run time.
    """
    found: list[Disturbance] = []
    floor_m = config.contact.floor_m or 0.0
    if imposed is not None:
        found.append(imposed)
    elif any(config.wind.mean_mps):
        found.append(ConstantWind(config.wind.mean_mps))
    if config.wind.gusts_mps:
        found.append(DrydenGusts(config.wind.gusts_mps, seed, vehicles.tolist(), floor_m))
    if config.ground_effect:
        found.append(GroundEffect(config.rotor_radius_m, ground_z_m=floor_m))
    if config.downwash:
        found.append(Downwash(config.rotor_radius_m))
    return found
