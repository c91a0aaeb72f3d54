"""Disturbances of vehicles by the configuration."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from vil_adapters.simulated.vehicle_config import VehicleConfig
from vil_bridge.vehicles.disturbances import Disturbance
from vil_bridge.vehicles.environment.effects import Downwash, GroundEffect
from vil_bridge.vehicles.environment.wind import ConstantWind, DrydenGusts


def disturbances_of(config: VehicleConfig, vehicles: npt.NDArray[np.int64], seed: int) -> list[Disturbance]:
    """Return wind, gusts, ground effect and downwash of a group of vehicles.

    Args:
        config: what they share.
        vehicles: their numbers in the source, to which their random numbers belong.
        seed: of the source.
    """
    found: list[Disturbance] = []
    floor_m = config.contact.floor_m or 0.0
    if any(config.wind.mean_mps):
        found.append(ConstantWind(config.wind.mean_mps))
    if config.wind.gusts_mps:
        found.append(DrydenGusts(config.wind.gusts_mps, seed, vehicles.tolist(), floor_m))
    if config.ground_effect:
        found.append(GroundEffect(config.rotor_radius_m, ground_z_m=floor_m))
    if config.downwash:
        found.append(Downwash(config.rotor_radius_m))
    return found
