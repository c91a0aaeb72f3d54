"""Parameters of autopilots' programs that fit the simulated vehicle and what the bridge sends of
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import Final

from vil_bridge.core.errors import ConfigError
from vil_simulation.sitl.options import SitlOptions
from vil_simulation.source.vehicle_config import AutopilotPose, AutopilotProgramConfig
from vil_simulation.vehicles.flightgoggles.airframes import PRESETS
from vil_simulation.vehicles.multicopter import MulticopterParameters

PRESET: Final = "autopilot_quad_x"
"""Vehicle of ``vil-bridge sitl``."""

Parameters = Mapping[str, int | float]

PX4_MODEL: Final = "none_iris"
_YAW_PER_S: Final = 37.5
"""Bandwidth of the rate about z that PX4's gains are made for."""
_YAW_INTEGRAL_PER_S: Final = 0.4
_GPS_DELAY_MS: Final = 110
"""PX4's default: it forgets that somebody set it, and its simulation replaces it by 10."""
_EV_ALL: Final = 15
_VISION: Final = 3
_NO_MAGNETOMETER: Final = 5
_AID_VISION: Final = 24
_OUTSIDE: Final = 6
"""ArduPilot's number of external navigation."""
_SERIAL1_KBAUD: Final = 921
"""ArduPilot takes off from a pose's arrival the time that its bytes need at this rate.

40 ms at its default of 57.
"""
_RECEIVER_DELAY_MS: Final = 130
"""Delay of the receiver of ArduPilot's own simulation, which ArduPilot takes for 100 ms.

With its default, the estimate lags the truth by 28 to 32 ms, with its own vehicle models too.
"""


def parameters_of(options: SitlOptions) -> Parameters:
    """Return the parameters of a program's present versions; empty = it needs none."""
    match options.program:
        case "px4":
            return px4_parameters(PRESETS[PRESET]) | _px4_sensors(options)
        case "ardupilot":
            return _ardupilot(options)
        case "betaflight":
            return {}


def older_parameters_of(options: SitlOptions) -> Parameters:
    """Return what versions before PX4 1.14 take instead of names that they do not know."""
    if options.program != "px4" or not options.indoors:
        return {}
    return {"EKF2_AID_MASK": _AID_VISION, "EKF2_HGT_MODE": _VISION}


def parameter_file(options: SitlOptions) -> list[str]:
    """Return the lines of a file: of PX4's ``px4-rc.params``, or of ArduPilot's ``--defaults``.

    Raises:
        ConfigError: the program takes no such file.
    """
    if options.program == "betaflight":
        raise ConfigError(
            ["--print-parameters is for px4 and ardupilot: Betaflight needs none. Remove it"]
        )
    form = "param set {} {}" if options.program == "px4" else "{} {}"
    lines = [form.format(name, value_of(value)) for name, value in parameters_of(options).items()]
    older = older_parameters_of(options)
    if older:
        lines.append("# PX4 1.13 and before; later versions say that they do not know them")
        lines += [form.format(name, value_of(value)) for name, value in older.items()]
    return lines


def environment_of(options: SitlOptions) -> dict[str, str]:
    """Return what PX4's start script reads of its environment, from PX4 1.14 on.

    Empty for other programs.
    """
    if options.program != "px4":
        return {}
    parameters = {
        f"PX4_PARAM_{name}": value_of(value) for name, value in parameters_of(options).items()
    }
    return {"PX4_SIM_MODEL": PX4_MODEL} | parameters


def value_of(value: float) -> str:
    """Return a value in the fewest digits."""
    return f"{value:g}"


def px4_parameters(airframe: MulticopterParameters) -> dict[str, int | float]:
    """Return the parameters that fit an airframe, whose outputs are speeds as shares of the
    highest.

    Torque over thrust of each rotor, the output that hovers, and gains of the rate about z: PX4's
    own are for rotors whose torque is 0.05 m times their thrust.
    """
    ratio_m = airframe.nominal_of("torque_nms2") / airframe.nominal_of("thrust_ns2")
    most_n = airframe.nominal_of("thrust_ns2") * airframe.nominal_of("motor_max_radps") ** 2
    rotors = len(airframe.rotors)
    hover = sqrt(airframe.mass_kg * airframe.gravity_mps2 / (rotors * most_n))
    per_output_radps2 = rotors * ratio_m * 2.0 * most_n * hover / airframe.inertia_kgm2[2][2]
    yaw_p = _rounded(_YAW_PER_S / per_output_radps2)
    turning = {
        f"CA_ROTOR{n}_KM": round(-rotor.direction * ratio_m, 3)
        for n, rotor in enumerate(airframe.rotors)
    }
    return {
        **turning,
        "MC_YAWRATE_P": yaw_p,
        "MC_YAWRATE_I": _rounded(_YAW_INTEGRAL_PER_S * yaw_p),
        "MPC_THR_HOVER": round(hover, 2),
    }


def _px4_sensors(options: SitlOptions) -> dict[str, int | float]:
    """Return the parameters for what the bridge sends.

    Poses of motion capture, or fixes as late as they are.
    """
    if options.indoors:
        return {
            "EKF2_EV_CTRL": _EV_ALL,
            "EKF2_EV_DELAY": AutopilotPose().delay_ms,
            "EKF2_HGT_REF": _VISION,
            "EKF2_GPS_CTRL": 0,
            "EKF2_MAG_TYPE": _NO_MAGNETOMETER,
            "SYS_HAS_GPS": 0,
            "SYS_HAS_MAG": 0,
        }
    receiver = AutopilotProgramConfig(kind="px4").gps
    assert receiver is not None
    delay_ms = round(1e3 * float(receiver.parameters["latency_s"]))
    if delay_ms == _GPS_DELAY_MS:
        delay_ms += 1
    return {"SENS_GPS0_DELAY": delay_ms, "EKF2_GPS_DELAY": delay_ms}


def _ardupilot(options: SitlOptions) -> dict[str, int | float]:
    """Return the parameters for the vehicle and its position.

    Receivers have one name from 4.6 on, and one in 4.5.
    """
    vehicle: dict[str, int | float] = {
        "ATC_RAT_YAW_P": 0.05,
        "ATC_RAT_YAW_I": 0.005,
        "MOT_THST_HOVER": 0.3,
        "WP_YAW_BEHAVIOR": 0,
    }
    if not options.indoors:
        return vehicle | {"GPS1_DELAY_MS": _RECEIVER_DELAY_MS, "GPS_DELAY_MS": _RECEIVER_DELAY_MS}
    sources = {f"EK3_SRC1_{name}": _OUTSIDE for name in ("POSXY", "VELXY", "POSZ", "VELZ", "YAW")}
    delay = {"SERIAL1_BAUD": _SERIAL1_KBAUD, "VISO_DELAY_MS": AutopilotPose().delay_ms}
    without_gps = {"GPS1_TYPE": 0, "GPS_TYPE": 0}
    return vehicle | without_gps | {"COMPASS_ENABLE": 0, "VISO_TYPE": 1} | delay | sources


def _rounded(value: float) -> float:
    """Return a value with two digits."""
    return float(f"{value:.2g}")
