"""Tracking controllers of the models here: their airframes, commands and gains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import singledispatch
from typing import Final, NamedTuple

import numpy as np

from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.trajectory import Trajectory
from vil_simulation.vehicles.airsim.model import AirsimMultirotor
from vil_simulation.vehicles.airsim.rotors import RotorTable
from vil_simulation.vehicles.control.airframe import RotorAirframe
from vil_simulation.vehicles.control.geometric import Demand, Gains, TrackingController
from vil_simulation.vehicles.flightgoggles.control import rotor_speeds
from vil_simulation.vehicles.flightgoggles.model import FlightGogglesMulticopter
from vil_simulation.vehicles.flightmare.model import FlightmareQuadrotor
from vil_simulation.vehicles.model import Model


class Pilot(NamedTuple):
    """Airframe, commands and gains with which a model is flown.

    Attributes:
        airframe: what the vehicle is taken for.
        commands: by mode, what turns demands into commands (n, du). gains: by mode.
    """

    airframe: RotorAirframe
    commands: dict[str, Callable[[Demand], FloatArray]]
    gains: dict[str, Gains]


def tracking(
    model: Model, trajectories: Trajectory | Sequence[Trajectory], gains: Gains | None = None
) -> TrackingController:
    """Return a controller that flies vehicles of a model, in the mode it is in, along trajectories.

    Modes: ``motor_speeds`` and ``rates`` of FlightGoggles' multicopter, ``thrusts`` and ``rates``
    of Flightmare's quadrotor, ``rotors`` of AirSim's multirotors.

    Args:
        model: of all vehicles.
        trajectories: one a vehicle; a single one for a single vehicle.
        gains: None = those that suit the model.

    Raises:
        ValueError: a mode that no controller here knows.
        TypeError: a model that none knows; make a :class:`TrackingController` of your own.
    """
    pilot = pilot_of(model)
    if model.mode not in pilot.commands:
        raise ValueError(
            f"a trajectory is flown in the modes {', '.join(pilot.commands)}, not in {model.mode!r}"
        )
    mode = model.mode
    return TrackingController(
        pilot.airframe, trajectories, pilot.commands[mode], gains or pilot.gains[mode]
    )


@singledispatch
def pilot_of(model: Model) -> Pilot:
    """Return how a model is flown; register your own with ``pilot_of.register``.

    Raises:
        TypeError: a model that is not known here.
    """
    raise TypeError(
        f"no pilot is known for {type(model).__name__}: register one with pilot_of.register"
    )


_STIFF: Final = Gains()
_SOFT: Final = Gains(position_per_s2=5.0, velocity_per_s=3.5, attitude_per_s2=84.0, rate_per_s=14.0)


@pilot_of.register
def _(model: FlightGogglesMulticopter) -> Pilot:
    p = model.parameters
    kf, slowest, fastest = (
        p.nominal_of(name) for name in ("thrust_ns2", "motor_min_radps", "motor_max_radps")
    )
    torques = p.levers_m + p.nominal_of("torque_nms2") / kf * p.twists_body
    airframe = RotorAirframe(
        p.mass_kg,
        np.array(p.inertia_kgm2),
        np.vstack((p.axes_body[:, 2], torques.T)),
        kf * slowest * abs(slowest),
        kf * fastest * abs(fastest),
        model.gravity_mps2,
        drag_quadratic_ns2pm2=p.drag_ns2pm2,
    )
    lag = (1.0 + model.rate_gains.derivative) / model.rate_gains.proportional_per_s
    return Pilot(
        airframe,
        {
            "motor_speeds": lambda d: rotor_speeds(
                airframe.within_limits(d.thrust_n, d.torque_body_nm) / kf
            ),
            "rates": lambda d: np.column_stack((d.thrust_n, d.w_body_radps)),
        },
        {"motor_speeds": _STIFF, "rates": replace(_SOFT, rate_lag_s=(lag, lag, lag))},
    )


@pilot_of.register
def _(model: FlightmareQuadrotor) -> Pilot:
    p = model.parameters
    airframe = RotorAirframe(
        p.mass_kg,
        np.diag(p.inertia_kgm2),
        p.allocation(),
        *model.thrust_limits_n,
        model.gravity_mps2,
        drag_linear_nspm=p.drag_linear_nspm,
    )
    gain_x, gain_y, gain_z = p.rate_gains_1ps
    return Pilot(
        airframe,
        {
            "thrusts": lambda d: airframe.within_limits(d.thrust_n, d.torque_body_nm),
            "rates": lambda d: np.column_stack((d.thrust_n / p.mass_kg, d.w_body_radps)),
        },
        {
            "thrusts": _SOFT,
            "rates": replace(_SOFT, rate_lag_s=(1.0 / gain_x, 1.0 / gain_y, 1.0 / gain_z)),
        },
    )


@pilot_of.register
def _(model: AirsimMultirotor) -> Pilot:
    if model.airframe.tilts:
        raise ValueError(
            "rotors that tilt are not flown along trajectories: use the modes of simple_flight"
        )
    # The model's own command, 0 to 1, is the unit of the rotors' thrust.
    count = len(model.airframe.rotors)
    known = RotorTable(replace(model.airframe, thrust_scale=1.0, torque_scale=1.0))
    force, torque = known.wrench(np.eye(count), np.zeros((count, 0)), model.calm(count))
    airframe = RotorAirframe(
        model.airframe.mass_kg,
        np.diag(model.inertia_kgm2),
        np.vstack((force[:, 2], torque.T)),
        0.0,
        1.0,
        model.gravity_mps2,
    )
    return Pilot(
        airframe,
        {"rotors": lambda d: airframe.within_limits(d.thrust_n, d.torque_body_nm)},
        {"rotors": _STIFF},
    )
