"""Validation of a vehicle's model, preset, parameters and modes."""

from __future__ import annotations

from typing import Final

from vil_simulation.source.autopilot import trajectory_of
from vil_simulation.source.model_factory import ModelFactory
from vil_simulation.source.sensor_parts import fitted_sensors, part_of, sensor_of
from vil_simulation.source.vehicle_config import (
    PROGRAMS,
    AutopilotProgramConfig,
    Vehicle,
    VehicleConfig,
)
from vil_simulation.vehicles.environment.geodesy import GeoOrigin

_BETAFLIGHT_MOTORS: Final = 4


def problem_of(config: VehicleConfig) -> str:
    """Return what is wrong with a vehicle's model, path or sensors; empty = nothing."""
    kind = config.autopilot.kind
    try:
        factory = ModelFactory(config)
        if not factory.steered_mode and kind not in ("hover", "none", *PROGRAMS):
            return (
                f"model {config.model!r} has no autopilot that flies {kind!r}: command it, or "
                "take a multirotor"
            )
        if kind == "betaflight" and factory.rotors > _BETAFLIGHT_MOTORS:
            return (
                f"model {config.model!r}, preset {config.preset!r} has {factory.rotors} "
                "motors, and Betaflight's "
                f"simulator sends {_BETAFLIGHT_MOTORS}; take autopilot_quad_x"
            )
        if factory.airsim is not None and isinstance(config.autopilot, AutopilotProgramConfig):
            preset = config.autopilot.motors.preset
            if preset != "linear":
                return (
                    f"autopilot.motors.preset {preset!r} is a curve of rotor speeds, and "
                    f"model {config.model!r} takes "
                    "thrusts; set dead_band, idle and exponent instead"
                )
        trajectory_of(config, config.p_m)
        for fitted in fitted_sensors([[Vehicle(0, "", config, config.p_m)]]):
            sensor_of(fitted, part_of(fitted.config), GeoOrigin(0.0, 0.0), 0)
            if fitted.kind == "rotors" and not factory.rotors:
                return (
                    f"sensors.{fitted.name}: model {config.model!r} has no rotors; remove the "
                    "sensor"
                )
    except ModuleNotFoundError as exc:
        return f"model {config.model!r}: the Python module {exc.name!r} is not installed"
    except (ValueError, TypeError) as exc:
        return str(exc)
    return ""
