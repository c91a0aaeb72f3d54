"""Every figure that the reference prints for AirSim's rotors, frames and boxes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from vil_bridge.core.geometry import GRAVITY_MPS2
from vil_simulation.vehicles.airsim.airframes import (
    FRAMES,
    AirsimAirframe,
    AirsimRotor,
    Propeller,
    Tilt,
)
from vil_simulation.vehicles.airsim.model import AirsimMultirotor


def digits(value: float, printed: str) -> bool:
    """Whether a value prints as the reference has it."""
    return f"{value:.{len(printed.split('.')[1])}f}" == printed


def test_default_propeller() -> None:
    propeller = Propeller()
    assert digits(propeller.max_thrust_n, "4.17945")
    assert digits(propeller.max_torque_nm, "0.0555622")
    assert digits(propeller.max_radps, "669.857")


@pytest.mark.parametrize(
    ("frame", "thrust_n", "hover"),
    [
        ("generic", "4.17945", "0.5866"),
        ("f450", "9.22526", "0.4345"),
        ("fla", "16.1575", "0.3414"),
        ("blacksheep", "9.22526", "0.5315"),
        ("hexa_x", "4.17945", "0.3911"),
        ("octo_x", "4.17945", "0.2933"),
    ],
)
def test_thrust_and_hover_control(frame: str, thrust_n: str, hover: str) -> None:
    airframe = FRAMES[frame]
    assert all(digits(rotor.propeller.max_thrust_n, thrust_n) for rotor in airframe.rotors)
    assert digits(airframe.hover_control(GRAVITY_MPS2), hover)


@pytest.mark.parametrize(
    ("frame", "inertia"),
    [
        ("generic", ("0.0067212", "0.0080407", "0.0142789")),
        ("f450", ("0.0134649", "0.0153200", "0.0147634")),
    ],
)
def test_printed_inertia(frame: str, inertia: tuple[str, str, str]) -> None:
    assert all(map(digits, FRAMES[frame].inertia_kgm2(), inertia))


@pytest.mark.parametrize("frame", ["fla", "blacksheep", "hexa_x", "octo_x"])
def test_inertia_is_the_box_and_the_motors(frame: str) -> None:
    airframe = FRAMES[frame]
    box_kg = airframe.mass_kg - len(airframe.rotors) * airframe.motor_kg
    moments = np.diag([box_kg / 12.0 * side**2 for side in airframe.box_m])
    moments = np.trace(moments) * np.eye(3) - moments
    for rotor in airframe.rotors:
        r = np.array(rotor.position_m)
        moments += airframe.motor_kg * np.diag(np.diag(r @ r * np.eye(3) - np.outer(r, r)))
    np.testing.assert_allclose(airframe.inertia_kgm2(), np.diag(moments), rtol=1e-12)


@pytest.mark.parametrize(
    ("frame", "factors"),
    [
        ("generic", ("0.0053831", "0.0058381", "0.1099301")),
        ("f450", ("0.0277724", "0.0332324", "0.4372504")),
    ],
)
def test_face_factors(frame: str, factors: tuple[str, str, str]) -> None:
    airframe = FRAMES[frame]
    assert all(map(digits, airframe.drag_factors_m2("airsim"), factors))
    x, y, z = airframe.drag_factors_m2()
    assert digits(x, factors[0])
    assert digits(y, factors[1])
    discs = 4.0 * math.pi * 0.1143**2
    assert z == pytest.approx(
        (airframe.box_m[0] * airframe.box_m[1] + discs) * airframe.drag_coefficient / 2.0
    )


def test_where_rotors_are_and_turn() -> None:
    quad = FRAMES["generic"].rotors
    half = 0.2275 * math.sqrt(0.5)
    expected = [
        (half, -half, -0.025),
        (-half, half, -0.025),
        (half, half, -0.025),
        (-half, -half, -0.025),
    ]
    np.testing.assert_allclose([rotor.position_m for rotor in quad], expected)
    assert [rotor.spin for rotor in quad] == [1, 1, -1, -1]
    np.testing.assert_allclose(
        np.linalg.norm([r.position_m[:2] for r in FRAMES["blacksheep"].rotors], axis=1)[:2],
        [0.22, 0.255],
    )


@pytest.mark.parametrize("frame", ["hexa_x", "octo_x"])
def test_neighbours_on_a_ring_turn_against_each_other(frame: str) -> None:
    ring = sorted(
        FRAMES[frame].rotors, key=lambda rotor: math.atan2(rotor.position_m[1], rotor.position_m[0])
    )
    spins = [rotor.spin for rotor in ring]
    assert all(a == -b for a, b in zip(spins, spins[1:] + spins[:1], strict=True))


@pytest.mark.parametrize("frame", sorted(FRAMES))
def test_demands_turn_the_body_where_they_say(frame: str) -> None:
    """Roll lowers the right side, pitch the nose, yaw turns left.

    Where rotors are symmetric nothing else happens.
    """
    model = AirsimMultirotor(frame)
    around = model.calm(3)
    _, torque = model.table.wrench(
        np.full((3, len(model.airframe.rotors)), 0.5), np.zeros((3, 0)), around
    )
    more = 0.5 + 0.1 * model.table.mixing.T
    change = model.table.wrench(more, np.zeros((3, 0)), around)[1] - torque
    assert (np.diag(change) > 0.0).all()
    if frame != "blacksheep":
        np.testing.assert_allclose(change - np.diag(np.diag(change)), 0.0, atol=1e-12)


def test_quad_mixing_is_the_originals() -> None:
    """Its table in FRD.

    Front right -roll +pitch +yaw, rear left + - +, front left + + -, rear right - - -.
    """
    original = np.array([[-1, 1, 1], [1, -1, 1], [1, 1, -1], [-1, -1, -1]])
    for frame in ("generic", "blacksheep"):
        np.testing.assert_array_equal(AirsimMultirotor(frame).table.mixing, original * [1, -1, -1])


def test_bad_frames_are_named() -> None:
    rotor = AirsimRotor((0.1, 0.0, 0.0), 1)
    with pytest.raises(ValueError, match="at least one rotor"):
        AirsimAirframe(1.0, 0.1, (0.1, 0.1, 0.1), ())
    with pytest.raises(ValueError, match="must exceed 1 motors"):
        AirsimAirframe(0.1, 0.1, (0.1, 0.1, 0.1), (rotor,))
    with pytest.raises(ValueError, match="rotor 0 is fixed to tilt 1; there are 1"):
        AirsimAirframe(
            1.0,
            0.1,
            (0.1, 0.1, 0.1),
            (AirsimRotor((0.1, 0.0, 0.0), 1, tilt=1),),
            (Tilt((0.0, 1.0, 0.0)),),
        )
    with pytest.raises(ValueError, match="axis must be a unit vector"):
        AirsimRotor((0.1, 0.0, 0.0), 1, axis=(0.0, 1.0, 1.0))
    with pytest.raises(ValueError, match="spin must be 1"):
        AirsimRotor((0.1, 0.0, 0.0), 0)
    with pytest.raises(ValueError, match="no frame 'quad'; known: generic, f450"):
        AirsimMultirotor("quad")
    with pytest.raises(ValueError, match="no mode 'fly'; known: rotors, rates"):
        AirsimMultirotor("generic", mode="fly")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="compatible with 'airsim', not with 'flightmare'"):
        AirsimMultirotor(compat="flightmare")  # type: ignore[arg-type]
