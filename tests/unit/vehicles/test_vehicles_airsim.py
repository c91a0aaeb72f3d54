"""AirSim's rigid body against equations written in its own frames, NED and FRD, from the
reference.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

from vil_bridge.core.geometry import GRAVITY_MPS2, q_to_matrix
from vil_bridge.core.types import FloatArray
from vil_simulation.vehicles.airsim.airframes import (
    FRAMES,
    AirsimAirframe,
    AirsimRotor,
    Propeller,
    Tilt,
)
from vil_simulation.vehicles.airsim.model import AirsimMultirotor
from vil_simulation.vehicles.fleet import Engine, Fleet

ENU_NED = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, -1.0]])
FLU_FRD = np.diag([1.0, -1.0, -1.0])


class Original:
    """The F450 in NED/FRD: accelerations from attitude, velocity, rates and filtered controls."""

    mass = 1.635
    wind, density, gravity = np.array([1.0, -0.5, 0.3]), 1.1, 9.80665
    thrust = 0.11 * 1.225 * (9500 / 60) ** 2 * 0.2286**4
    torque = 0.047 * 1.225 * (9500 / 60) ** 2 * 0.2286**5 / (2 * math.pi)

    def __init__(self, discs: float) -> None:
        """discs: area of one rotor's disc over pi D^2."""
        rims, area = 4 * math.pi * 0.2286 * 0.01, 4 * discs * math.pi * 0.2286**2
        self.k = np.array([0.10 * 0.14 + rims, 0.16 * 0.14 + rims, 0.16 * 0.10 + area]) * 1.3 / 2
        arm = 0.225 * math.sqrt(0.5)
        self.hubs = np.array(
            [(arm, arm, 0.15), (-arm, -arm, 0.15), (arm, -arm, 0.15), (-arm, arm, 0.15)]
        )
        box = (
            (1.635 - 4 * 0.052)
            / 12
            * np.array([0.1**2 + 0.14**2, 0.16**2 + 0.14**2, 0.16**2 + 0.1**2])
        )
        self.inertia = box + 4 * 0.052 * np.array([arm**2 + 0.15**2, arm**2 + 0.15**2, 2 * arm**2])

    def accelerations(
        self, R: FloatArray, v: FloatArray, w: FloatArray, u: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        normal = np.array([0.0, 0.0, -1.0])
        force, torque = np.zeros(3), np.zeros(3)
        for hub, control, turning in zip(self.hubs, u, (-1, -1, 1, 1), strict=True):
            push = normal * control * self.thrust * self.density / 1.225
            force += push
            torque += (
                np.cross(hub, push)
                + normal * control * self.torque * turning * self.density / 1.225
            )
        relative = R.T @ (v - self.wind)
        for axis in range(3):
            for side in (-1.0, 1.0):
                e = side * np.eye(3)[axis]
                r = e * (0.16, 0.10, 0.14)[axis] / 2
                c = e @ (relative + np.cross(w, r))
                face = -e * self.k[axis] * self.density * c * c * (c > 0.1)
                force += face
                torque += np.cross(r, face)
        a = R @ force / self.mass + np.array([0.0, 0.0, self.gravity])
        return a, (torque - np.cross(w, self.inertia * w)) / self.inertia


START_V, START_W = np.array([6.0, -5.0, 4.0]), np.array([0.3, -0.2, 0.4])
START_R = Rotation.from_euler("ZYX", [0.4, -0.2, 0.1]).as_matrix()
START_U, GOAL_U = np.array([0.40, 0.45, 0.41, 0.43]), np.array([0.452, 0.449, 0.447, 0.455])


def vehicle(compat: str | None = None) -> tuple[AirsimMultirotor, FloatArray, FloatArray]:
    """The same vehicle here: model, state and surroundings."""
    model = AirsimMultirotor("f450", compat="airsim" if compat else None)
    x = model.initial(1)
    s = model.state.split(x)
    s["v_world_mps"][:] = ENU_NED @ START_V
    s["q_world_body"][:] = Rotation.from_matrix(ENU_NED @ START_R @ FLU_FRD).as_quat()
    s["w_body_radps"][:] = FLU_FRD @ START_W
    s["rotors_control"][:] = START_U
    around = model.calm(1)
    around[:, :3], around[:, 9] = ENU_NED @ Original.wind, Original.density
    return model, x, around


def fly(compat: str | None, dt_s: float, seconds: float) -> FloatArray:
    model, x, around = vehicle(compat)
    for _ in range(round(seconds / dt_s)):
        x = model.step(x, GOAL_U[None], around, dt_s)
    return np.concatenate((x[0, :6], q_to_matrix(x[0, 6:10]).ravel(), x[0, 10:17]))


def oracle(seconds: float, discs: float) -> FloatArray:
    original = Original(discs)

    def slope(_t: float, y: FloatArray) -> FloatArray:
        v, R, w, u = y[3:6], y[6:15].reshape(3, 3), y[15:18], y[18:22]
        relative = np.abs(R.T @ (v - original.wind))
        assert relative.min() > 0.3  # no face near the speed where its drag sets in
        a, alpha = original.accelerations(R, v, w, u)
        spin = np.array([[0.0, -w[2], w[1]], [w[2], 0.0, -w[0]], [-w[1], w[0], 0.0]])
        return np.concatenate((v, a, (R @ spin).ravel(), alpha, (GOAL_U - u) / 0.005))

    start = np.concatenate((np.zeros(3), START_V, START_R.ravel(), START_W, START_U))
    y = solve_ivp(slope, (0.0, seconds), start, method="DOP853", rtol=1e-12, atol=1e-13).y[:, -1]
    turned = ENU_NED @ y[6:15].reshape(3, 3) @ FLU_FRD
    return np.concatenate(
        (ENU_NED @ y[:3], ENU_NED @ y[3:6], turned.ravel(), FLU_FRD @ y[15:18], y[18:22])
    )


def test_converges_with_order_two_to_the_oracle() -> None:
    true = oracle(0.2, discs=0.25)
    errors = [float(np.abs(fly(None, dt_s, 0.2) - true).max()) for dt_s in (0.001, 0.0005, 0.00025)]
    assert errors[0] < 2e-4
    assert 3.8 < errors[0] / errors[1] < 4.2
    assert 3.8 < errors[1] / errors[2] < 4.2


def test_the_original_converges_with_order_one() -> None:
    true = oracle(0.2, discs=1.0)
    errors = [float(np.abs(fly("airsim", dt_s, 0.2) - true).max()) for dt_s in (0.001, 0.0005)]
    assert 1.8 < errors[0] / errors[1] < 2.2


def test_compat_steps_as_the_reference_lists_them() -> None:
    """Mean velocities, forces at the old attitude, accelerations, trapezium, pose.

    200 steps of 3 ms.

    Actuators set their wrench first, then take over their filter's output, then filter
    (RotorActuator.hpp).
    """
    original, dt = Original(discs=1.0), 0.003
    p, v, w, R, u = np.zeros(3), START_V, START_W, START_R, START_U
    a, alpha, pushing = np.zeros(3), np.zeros(3), np.zeros(4)
    for _ in range(200):
        pushed, pushing = pushing, u
        u = u * math.exp(-dt / 0.005) + GOAL_U * (1 - math.exp(-dt / 0.005))
        v_mean, w_mean = v + a * dt / 2, w + alpha * dt / 2
        a_new, alpha_new = original.accelerations(R, v_mean, w_mean, pushed)
        v, w = v + (a + a_new) * dt / 2, w + (alpha + alpha_new) * dt / 2
        p, R = p + v_mean * dt, R @ Rotation.from_rotvec(w_mean * dt).as_matrix()
        a, alpha = a_new, alpha_new
    expected = np.concatenate(
        (ENU_NED @ p, ENU_NED @ v, (ENU_NED @ R @ FLU_FRD).ravel(), FLU_FRD @ w, u)
    )
    np.testing.assert_allclose(fly("airsim", dt, 0.6), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("engine", ["numpy", "native"])
def test_a_command_acts_two_steps_later_in_the_original(engine: Engine) -> None:
    if engine == "native":
        pytest.importorskip("numba")
    first = {}
    for compat in (None, "airsim"):
        fleet = Fleet(AirsimMultirotor("generic", compat=compat), 1, engine=engine)
        fleet.command(np.full(4, 0.9))
        lifts = []
        for _ in range(6):
            fleet.advance(1)
            lifts.append(float(fleet.truth().a_world_mps2[0, 2]) + GRAVITY_MPS2)
        first[compat] = [lift > 1e-9 for lift in lifts].index(True)
    assert (first[None], first["airsim"]) == (0, 2)


def test_derivative_is_the_oracles() -> None:
    model, x, around = vehicle()
    rates = model.state.split(model.derivative(x, GOAL_U[None], around))
    a, alpha = Original(discs=0.25).accelerations(START_R, START_V, START_W, START_U)
    np.testing.assert_allclose(rates["v_world_mps"][0], ENU_NED @ a, rtol=1e-12)
    np.testing.assert_allclose(rates["w_body_radps"][0], FLU_FRD @ alpha, rtol=1e-11)
    np.testing.assert_allclose(rates["rotors_control"][0], (GOAL_U - START_U) / 0.005, rtol=1e-12)
    np.testing.assert_array_equal(rates["p_world_m"], x[:, 3:6])


@pytest.mark.parametrize("frame", ["generic", "f450", "fla", "hexa_x", "octo_x"])
def test_hover_is_an_equilibrium(frame: str) -> None:
    model = AirsimMultirotor(frame)
    fleet = Fleet(model, 2, engine="numpy")
    hover = model.airframe.hover_control(GRAVITY_MPS2)
    fleet.command(np.full(len(model.airframe.rotors), hover))
    fleet.place(rotors_control=hover)
    fleet.advance(200)
    np.testing.assert_allclose(fleet.x[:, :13], model.initial(2)[:, :13], atol=1e-12)
    truth = fleet.truth()
    np.testing.assert_allclose(truth.f_body_mps2, [[0.0, 0.0, GRAVITY_MPS2]] * 2, atol=1e-12)
    np.testing.assert_allclose(
        truth.rotors_radps, math.sqrt(hover) * model.table.max_radps[None].repeat(2, axis=0)
    )


def test_momentum_and_energy_in_free_flight() -> None:
    """Rotors off, no air.

    Rates precess, angular momentum and energy stay but for errors that fall with the step.
    """
    model = AirsimMultirotor()
    around = model.calm(1)
    around[:, 9] = 0.0

    def drift(dt_s: float) -> tuple[float, float]:
        x = model.initial(1)
        x[:, 3:6], x[:, 10:13] = (1.0, 2.0, 3.0), (6.0, 4.0, -5.0)
        before = momentum_energy(x)
        for _ in range(round(0.25 / dt_s)):
            x = model.step(x, model.neutral(1), around, dt_s)
        np.testing.assert_allclose(x[0, 3:6], [1.0, 2.0, 3.0 - 0.25 * GRAVITY_MPS2], rtol=1e-12)
        np.testing.assert_allclose(x[0, :3], [0.25, 0.5, 0.75 - 0.03125 * GRAVITY_MPS2], rtol=1e-12)
        after = momentum_energy(x)
        return float(np.abs(after[0] - before[0]).max()), abs(after[1] - before[1])

    def momentum_energy(x: FloatArray) -> tuple[FloatArray, float]:
        spin = model.inertia_kgm2 * x[0, 10:13]
        return q_to_matrix(x[0, 6:10]) @ spin, float(0.5 * spin @ x[0, 10:13])

    (momentum, energy), (momentum_half, energy_half) = drift(0.001), drift(0.0005)
    assert momentum < 1e-6
    assert energy < 1e-6
    assert momentum_half < 0.3 * momentum
    assert energy_half < 0.3 * energy


def test_air_density_wind_and_factor() -> None:
    model = AirsimMultirotor()
    x, u = model.initial(4), np.full((4, 4), 0.5)
    model.state.split(x)["rotors_control"][:] = 0.5
    around = model.calm(4)
    around[1, 9] = 0.6125
    around[2, 11] = 1.1
    around[3, 0] = 10.0
    a = model.derivative(x, u, around)[:, 3:6]
    lift = a[:, 2] + GRAVITY_MPS2
    np.testing.assert_allclose(lift / lift[0], [1.0, 0.5, 1.1, 1.0])
    np.testing.assert_allclose(
        a[:, 0], [0.0, 0.0, 0.0, model.drag_factors_m2[0] * 1.225 * 100.0], atol=1e-12
    )
    around[:, :9] = [10.0, 0.0, 0.0, 0.1, 0.2, 0.3, 1e-3, 2e-3, 3e-3]
    x[:, 3] = 9.95  # slower in the air than drag sets in at
    pushed = model.derivative(x[:1], u[:1], around[:1])
    np.testing.assert_allclose(pushed[0, 3:6], [0.1, 0.2, 0.3 + lift[0] - GRAVITY_MPS2])
    np.testing.assert_allclose(pushed[0, 10:13], [1e-3, 2e-3, 3e-3] / model.inertia_kgm2)


@pytest.mark.parametrize("engine", ["numpy", "native"])
def test_a_grounded_vehicle_stands_until_its_rotors_carry_it(engine: str) -> None:
    model = AirsimMultirotor()
    fleet = Fleet(model, 2, engine=engine)  # type: ignore[arg-type]
    fleet.place(grounded=1.0)
    hover = model.airframe.hover_control(GRAVITY_MPS2)
    fleet.command([[0.99 * hover] * 4, [1.01 * hover] * 4])
    fleet.advance(200)
    s = model.state.split(fleet.x)
    np.testing.assert_array_equal(s["grounded"].ravel(), [1.0, 0.0])
    np.testing.assert_array_equal(fleet.x[0, :6], 0.0)
    assert s["v_world_mps"][1, 2] > 0.04
    np.testing.assert_allclose(fleet.truth().f_body_mps2[0], [0.0, 0.0, GRAVITY_MPS2])


def tilt_rotor() -> AirsimAirframe:
    """A quad whose front and rear rotors swing forward with one servo each, about their arms."""
    rotors = tuple(
        AirsimRotor((0.25 * x, 0.3 * y, 0.0), spin, Propeller(), tilt=0 if x > 0 else 1)
        for x, y, spin in ((1, -1, 1), (-1, 1, 1), (1, 1, -1), (-1, -1, -1))
    )
    servos = (
        Tilt((0.0, 1.0, 0.0), (0.25, 0.0, 0.0), 0.0, 1.5),
        Tilt((0.0, 1.0, 0.0), (-0.2, 0.0, 0.05), 0.0, 1.5),
    )
    return replace(FRAMES["generic"], rotors=rotors, tilts=servos)


def test_tilting_rotors_turn_about_their_pivots() -> None:
    model = AirsimMultirotor(tilt_rotor())
    angles, controls = np.array([[0.3, 0.7]]), np.array([[0.4, 0.5, 0.6, 0.7]])
    force, torque = np.zeros(3), np.zeros(3)
    for rotor, control in zip(model.airframe.rotors, controls[0], strict=True):
        assert rotor.tilt is not None
        turn = Rotation.from_rotvec(np.array([0.0, angles[0, rotor.tilt], 0.0]))
        pivot = np.array(model.airframe.tilts[rotor.tilt].pivot_m)
        axis, hub = (
            turn.apply([0.0, 0.0, 1.0]),
            pivot + turn.apply(np.array(rotor.position_m) - pivot),
        )
        push = control * 4.179446267535562 * axis
        force += push
        torque += np.cross(hub, push) - rotor.spin * control * 0.05556218210936088 * axis
    got = model.table.wrench(controls, angles, model.calm(1))
    np.testing.assert_allclose(got[0][0], force, rtol=1e-12)
    np.testing.assert_allclose(got[1][0], torque, rtol=1e-11)


@pytest.mark.parametrize("engine", ["numpy", "native"])
def test_servos_lag_and_stop(engine: str) -> None:
    fleet = Fleet(AirsimMultirotor(tilt_rotor()), 1, engine=engine)  # type: ignore[arg-type]
    fleet.command([0.5, 0.5, 0.5, 0.5, 2.0, -1.0])
    fleet.advance(50)
    tilts = fleet.x[0, fleet.model.state["tilt_rad"]]
    np.testing.assert_allclose(tilts, [1.5 * (1.0 - math.exp(-1.5)), 0.0], atol=1e-12)


def test_a_tilt_rotor_hovers_and_goes_over_to_level_flight() -> None:
    """Level body, rotors forward by 0.6 rad.

    It climbs nowhere and flies as fast as drag balances the thrust.
    """
    tilt = 0.6
    frame = tilt_rotor()
    frame = replace(
        frame, tilts=(frame.tilts[0], replace(frame.tilts[1], pivot_m=(-0.25, 0.0, 0.0)))
    )
    hovering = Fleet(AirsimMultirotor(frame, mode="velocity"), 1)
    hovering.advance(2000)
    np.testing.assert_allclose(hovering.x[0, 3:6], 0.0, atol=1e-3)
    model = AirsimMultirotor(
        frame,
        mode="attitude",
    )
    fleet = Fleet(model, 1, dt_s=Fraction(1, 200))
    fleet.x = hovering.x.copy()
    height = float(fleet.x[0, 2])
    throttle = frame.hover_control(GRAVITY_MPS2)
    for angle in np.linspace(0.0, tilt, 60):
        fleet.command(
            [
                0.0,
                0.0,
                throttle / math.cos(fleet.x[0, model.state["tilt_rad"]][0]),
                0,
                0,
                0,
                angle,
                angle,
            ]
        )
        fleet.advance(10)
    fleet.command([0.0, 0.0, throttle / math.cos(tilt), 0.0, 0.0, 0.0, tilt, tilt])
    fleet.advance(200 * 40)
    s = model.state.split(fleet.x)
    drag = float(model.drag_factors_m2[0]) * 1.225
    assert s["v_world_mps"][0, 0] == pytest.approx(
        math.sqrt(GRAVITY_MPS2 * math.tan(tilt) / drag), rel=1e-3
    )
    assert abs(s["p_world_m"][0, 2] - height) < 5.0
    np.testing.assert_allclose(s["q_world_body"][0], [0.0, 0.0, 0.0, 1.0], atol=1e-6)
