"""Models by name, and the commands that each accepts."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from inspect import signature
from typing import Any, Final

import msgspec
import numpy as np

from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.vehicle_commands import CommandField
from vil_simulation.source.vehicle_config import AutopilotProgramConfig, VehicleConfig
from vil_simulation.vehicles.airsim.model import AirsimMultirotor
from vil_simulation.vehicles.airsim.simple_flight import SimpleFlight
from vil_simulation.vehicles.layout import RIGID_BODY
from vil_simulation.vehicles.model import Model
from vil_simulation.vehicles.multicopter import MulticopterParameters

_GROUP: Final = "vil_bridge.vehicles"

AUTOPILOT_MODES: Final[Mapping[str, tuple[CommandField, ...]]] = {
    "velocity": (CommandField("v_world_mps", 3, "m/s"), CommandField("yaw_radps", 1, "rad/s")),
    "position": (CommandField("p_world_m", 3, "m"), CommandField("yaw_rad", 1, "rad")),
    "reference": (
        CommandField("p_world_m", 3, "m"),
        CommandField("v_world_mps", 3, "m/s"),
        CommandField("a_world_mps2", 3, "m/s^2"),
        CommandField("j_world_mps3", 3, "m/s^3"),
        CommandField("s_world_mps4", 3, "m/s^4"),
        CommandField("yaw_rad", 1, "rad"),
        CommandField("yaw_radps", 1, "rad/s"),
    ),
}
"""Modes that the autopilot adds to those of a model that it can fly."""

PERSISTENT_MODES: Final = frozenset({"position", "waypoint"})
"""Modes whose commands say where to stay: they need no repetition."""

RC_MODE: Final = "rc"
_RC_FIELDS: Final = (
    *(CommandField(name, 1, "us") for name in ("roll_us", "pitch_us", "throttle_us", "yaw_us")),
    CommandField("switches_us", 4, "us"),
)
"""The only mode of a vehicle that an autopilot's program flies.

Its remote control, pulse widths from 1000 to 2000.
"""


@dataclass(frozen=True, slots=True)
class _Kind:
    """Location of a built-in model; all places are written "module:name".

    Attributes:
        model: class, made with its parameters, and ``mode`` and ``compat`` where those are asked
            for.
        parameters: dataclass that is its first argument; empty = it takes its parameters as
            arguments.
        presets: mapping of named parameters; empty = there are none. default: name of the usual
            ones.
        steered: the mode in which the autopilot flies it; empty = it cannot.
        motors: the mode of one command for each motor; empty = there is none.
    """

    model: str
    parameters: str = ""
    presets: str = ""
    default: str = ""
    steered: str = ""
    motors: str = ""


_BUILT_IN: Final[Mapping[str, _Kind]] = {
    "flightgoggles": _Kind(
        "vil_simulation.vehicles.flightgoggles.model:FlightGogglesMulticopter",
        "vil_simulation.vehicles.multicopter:MulticopterParameters",
        "vil_simulation.vehicles.flightgoggles.airframes:PRESETS",
        "flightgoggles",
        steered="rates",
        motors="motor_speeds",
    ),
    "flightmare": _Kind(
        "vil_simulation.vehicles.flightmare.model:FlightmareQuadrotor",
        "vil_simulation.vehicles.flightmare.parameters:QuadrotorParameters",
        "vil_simulation.vehicles.flightmare.parameters:PRESETS",
        "flightmare",
        "rates",
    ),
    "airsim": _Kind(
        "vil_simulation.vehicles.airsim.model:AirsimMultirotor",
        "vil_simulation.vehicles.airsim.airframes:AirsimAirframe",
        "vil_simulation.vehicles.airsim.airframes:FRAMES",
        "generic",
        "rotors",
        "rotors",
    ),
    "kinematic": _Kind("vil_simulation.vehicles.kinematic:KinematicBody"),
    "car": _Kind("vil_simulation.vehicles.car:DubinsCar"),
    "bicycle": _Kind(
        "vil_simulation.vehicles.car:KinematicBicycle",
        "vil_simulation.vehicles.car:BicycleParameters",
    ),
}


def model_names() -> list[str]:
    """Return names that ``model`` may have, sorted."""
    return sorted({*_BUILT_IN, *(entry.name for entry in entry_points(group=_GROUP))})


class ModelFactory:
    """Makes the model of a vehicle for any of its modes.

    Attributes:
        model: in the mode in which the configuration starts it.
        autopilot_modes: modes that only the autopilot offers; empty where it cannot fly the model.
        modes: all modes with their fields.

    Raises:
        ValueError: no such model, preset, parameter or mode; says what there is.
    """

    def __init__(self, config: VehicleConfig) -> None:
        self._config = config
        self._kind = _BUILT_IN.get(config.model)
        self._parameters = None if self._kind is None else _parameters_of(self._kind, config)
        self.model = self.make(config.mode)
        absent = [f.name for f in RIGID_BODY if f.name not in self.model.state]
        if absent:
            raise ValueError(
                f"model {config.model!r} has no {absent[0]}: only rigid bodies can be seen"
            )
        self.autopilot_modes: Mapping[str, tuple[CommandField, ...]] = {
            mode: fields
            for mode, fields in AUTOPILOT_MODES.items()
            if self.steered_mode and mode not in self.model.commands
        }
        modes: dict[str, tuple[CommandField, ...]] = {}
        for mode, layout in self.model.commands.items():
            modes[mode] = tuple(CommandField(f.name, f.size, f.unit) for f in layout.fields)
        self.modes: Mapping[str, tuple[CommandField, ...]] = modes | dict(self.autopilot_modes)
        if isinstance(config.autopilot, AutopilotProgramConfig):
            if not self.motor_mode:
                known = ", ".join(name for name, kind in _BUILT_IN.items() if kind.motors)
                raise ValueError(
                    f"model {config.model!r} has no motors for autopilot.kind "
                    f"{config.autopilot.kind}; take {known}"
                )
            self.modes = {RC_MODE: _RC_FIELDS}

    @property
    def steered_mode(self) -> str:
        """The mode in which the autopilot flies the model; empty = it cannot."""
        return "" if self._kind is None else self._kind.steered

    @property
    def motor_mode(self) -> str:
        """The mode of one command for each motor; empty = there is none."""
        return "" if self._kind is None else self._kind.motors

    @property
    def full_motors(self) -> FloatArray:
        """Commands of that mode for motors at their fastest, (motors,)."""
        parameters = getattr(self.model, "parameters", None)
        if isinstance(parameters, MulticopterParameters):
            return parameters.of_motors("motor_max_radps")
        return np.ones(self.rotors)

    @property
    def rotors(self) -> int:
        """Number of rotors."""
        return len(self.model.rotor_outputs(self.model.initial(1), self.model.calm(1))[0])

    @property
    def airsim(self) -> AirsimMultirotor | None:
        """The model as AirSim's multirotor, which flies moves; None = it is another."""
        return self.model if isinstance(self.model, AirsimMultirotor) else None

    def make(self, mode: str, flight: SimpleFlight | None = None) -> Model:
        """Return the model in a mode, empty = its default.

        ``flight``: of AirSim's flight controller.

        Raises:
            ValueError: it has no such mode.
        """
        own = {} if flight is None else {"flight": flight}
        made = self._made(dict(own))
        if mode and mode != made.mode:
            if mode not in made.commands:
                raise ValueError(
                    f"model {self._config.model!r} has no mode {mode!r}; known: "
                    f"{', '.join(made.commands)}"
                )
            made = self._made({"mode": mode, **own})
        return made

    def _made(self, extra: dict[str, Any]) -> Model:
        config = self._config
        kind = self._kind
        if kind is None:
            made = _plugged_in(config)(**config.parameters, **extra)
        else:
            extra |= {"compat": config.model} if config.compat else {}
            make = _load(kind.model)
            arguments = (self._parameters,) if kind.parameters else ()
            own = {} if kind.parameters else config.parameters
            known = [name for name in signature(make).parameters if name != "mode"]
            for name in own | extra:
                if name not in (*known, "mode"):
                    raise ValueError(
                        f"model {config.model!r} has no parameter {name!r}; known: "
                        f"{', '.join(known)}"
                    )
            made = make(*arguments, **own, **extra)
        if not isinstance(made, Model):
            raise ValueError(f"{config.model!r} is not a vil_simulation.vehicles.model.Model")
        return made


def _load(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


def _plugged_in(config: VehicleConfig) -> Any:
    found = [entry for entry in entry_points(group=_GROUP) if entry.name == config.model]
    if not found:
        raise ValueError(f"unknown model {config.model!r}; known: {', '.join(model_names())}")
    if config.preset or config.compat:
        raise ValueError(
            f"model {config.model!r} is a plug-in: it has parameters, and neither preset nor compat"
        )
    return found[0].load()


def _parameters_of(kind: _Kind, config: VehicleConfig) -> Any:
    """Return the parameters of a preset, single ones of them replaced."""
    presets: Mapping[str, Any] = _load(kind.presets) if kind.presets else {}
    if config.preset and config.preset not in presets:
        known = ", ".join(presets) or "none"
        raise ValueError(f"model {config.model!r} has no preset {config.preset!r}; known: {known}")
    if not kind.parameters:
        return None
    cls = _load(kind.parameters)
    base = presets[config.preset or kind.default] if presets else cls()
    if not config.parameters:
        return base
    known_names = [field.name for field in dataclasses.fields(cls)]
    for name in config.parameters:
        if name not in known_names:
            raise ValueError(
                f"model {config.model!r} has no parameter {name!r}; known: {', '.join(known_names)}"
            )
    try:
        return msgspec.convert(msgspec.to_builtins(base) | config.parameters, cls)
    except msgspec.ValidationError as exc:
        raise ValueError(f"parameters of model {config.model!r}: {exc}") from None
