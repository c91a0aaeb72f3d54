"""Values that a program or its settings leave out, and units of the settings' noise keys.

The expected ones are those of AirSim's client classes and of its sensors' settings
(airsim_clients.md, airsim_models.md), written out by hand.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from vil_bridge.core.errors import ConfigError
from vil_bridge.core.geometry import Transform
from vil_simulation.airsim import values
from vil_simulation.airsim.sensor_noise import noise_of
from vil_simulation.airsim.settings import SensorSettings

ZEROS = (
    values.Vector3r,
    values.PointNed,
    values.VelocityNed,
    values.AccelerationNed,
    values.BodyRates,
    values.BodyAccelerations,
    values.WindNed,
    values.ForceNed,
)


def received(kind: type[msgspec.Struct], fields: dict[str, object]) -> dict[str, Any]:
    """Return the fields of a message of which a program sends only these."""
    return msgspec.structs.asdict(msgspec.convert(fields, kind))


@pytest.mark.parametrize("kind", ZEROS)
@pytest.mark.parametrize("sent", [{}, {"x_val": 1.5}, {"y_val": -2.0}, {"z_val": 0.25}])
def test_a_vector_is_zero_where_it_is_not_sent(
    kind: type[msgspec.Struct], sent: dict[str, object]
) -> None:
    assert received(kind, sent) == {"x_val": 0.0, "y_val": 0.0, "z_val": 0.0} | sent


def test_a_scale_is_one_where_it_is_not_sent() -> None:
    assert received(values.GivenScale, {}) == {"x_val": 1.0, "y_val": 1.0, "z_val": 1.0}


def test_a_cars_controls_are_those_of_a_car_that_rolls() -> None:
    assert received(values.CarControls, {}) == {
        "throttle": 0.0,
        "steering": 0.0,
        "brake": 0.0,
        "handbrake": False,
        "is_manual_gear": False,
        "manual_gear": 0,
        "gear_immediate": True,
    }


def test_a_remote_control_rests_where_it_is_not_sent() -> None:
    rest = received(values.RCData, {})
    assert {rest[stick] for stick in ("pitch", "roll", "throttle", "yaw", "left_z", "right_z")} == {
        0.0
    }
    assert (rest["switches"], rest["vendor_id"]) == (0, "")
    assert (rest["is_initialized"], rest["is_valid"]) == (False, False)


def test_a_move_holds_its_heading_where_no_yaw_mode_is_sent() -> None:
    assert received(values.YawMode, {}) == {"is_rate": True, "yaw_or_rate": 0.0}


def parameters(kind: str, **keys: float) -> dict[str, Any]:
    settings = SensorSettings(kind, Transform.of((0, 0, 0), (0, 0, 0, 1)), keys)
    return dict(noise_of(settings, "Sensors.S.").parameters)


@pytest.mark.parametrize(
    ("kind", "key", "given", "parameter", "expected"),
    [
        ("barometer", "PressureFactorSigma", 0.001825, "drift", 0.001825),
        ("barometer", "PressureFactorTau", 3600.0, "drift_s", 3600.0),
        ("barometer", "UncorrelatedNoiseSigma", 2.7, "noise_pa", 2.7),
        # One gauss is 100 microtesla.
        ("magnetometer", "NoiseSigma", 0.005, "noise_t", 0.5e-6),
        ("magnetometer", "NoiseBias", 0.02, "bias_t", 2e-6),
        ("magnetometer", "ScaleFactor", 2.0, "scale", 2.0),
        ("gps", "EphInitial", 100.0, "accuracy_first_m", 100.0),
        ("gps", "EphFinal", 0.3, "accuracy_last_m", 0.3),
        ("gps", "EPH_TimeConstant", 0.9, "accuracy_s", 0.9),
        ("gps", "EphMin2d", 4.0, "fix_2d_m", 4.0),
        ("gps", "EphMin3d", 3.0, "fix_3d_m", 3.0),
        ("gps", "UpdateLatency", 0.2, "latency_s", 0.2),
        ("gps", "StartupDelay", 1.0, "startup_s", 1.0),
    ],
)
def test_a_noise_key_sets_one_parameter_in_its_unit(
    kind: str, key: str, given: float, parameter: str, expected: float
) -> None:
    assert parameters(kind, **{key: given}) == {parameter: pytest.approx(expected)}


@pytest.mark.parametrize("key", ["UpdateLatency", "StartupDelay"])
def test_a_delay_lasts_a_minute_at_most(key: str) -> None:
    assert list(parameters("gps", **{key: 60.0}).values()) == [60.0]
    with pytest.raises(ConfigError, match=rf"Sensors\.S\.{key}: must be"):
        parameters("gps", **{key: 60.001})
