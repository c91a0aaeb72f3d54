"""FlightGoggles' multicopter against an integration of its equations, and against the laws of
free flight.
"""

from __future__ import annotations

import itertools
import math
from typing import Final

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

from vil_bridge.core.types import FloatArray
from vil_simulation.vehicles.disturbances import ENVIRONMENT
from vil_simulation.vehicles.fleet import Fleet
from vil_simulation.vehicles.flightgoggles.control import WaypointGains
from vil_simulation.vehicles.flightgoggles.model import FlightGogglesMulticopter
from vil_simulation.vehicles.model import Integrator, Model
from vil_simulation.vehicles.multicopter import MulticopterParameters, Rotor, quad_x

_INERTIA: Final = ((0.0120, 0.0007, -0.0004), (0.0007, 0.0140, 0.0005), (-0.0004, 0.0005, 0.0210))
_DAMPING: Final = ((0.003, 0.0002, 0.0), (0.0001, 0.004, 0.0), (0.0, 0.0003, 0.002))


def frame(rotors: int, tilt_rad: float, arm_m: float = 0.2) -> MulticopterParameters:
    """A vehicle of a ring of rotors, each leaning sideways, at different heights."""
    ring = []
    for k in range(rotors):
        a = 2.0 * math.pi * k / rotors + 0.3
        lean = tilt_rad * (1.0 if k % 3 else -0.5)
        axis = Rotation.from_rotvec(lean * np.array([math.cos(a), math.sin(a), 0.0])).apply(
            [0.0, 0.0, 1.0]
        )
        x, y, z = axis.tolist()
        ring.append(
            Rotor(
                (arm_m * math.cos(a), arm_m * math.sin(a), 0.01 * k),
                (x, y, z),
                1.0 if k % 2 else -1.0,
            )
        )
    return MulticopterParameters(
        mass_kg=1.7,
        inertia_kgm2=_INERTIA,
        rotors=tuple(ring),
        rotor_inertia_kgm2=4e-5,
        aero_moment_nms2=_DAMPING,
    )


AROUND: Final = ENVIRONMENT.pack(
    {
        "wind_world_mps": (2.0, -1.0, 0.5),
        "force_world_n": (0.3, -0.2, 0.4),
        "torque_body_nm": (0.002, -0.003, 0.001),
        "density_kgpm3": 1.05,
        "gravity_mps2": 9.79,
        "thrust_factor": 1.08,
    }
)


def start(model: Model, n: int = 1, seed: int = 1) -> FloatArray:
    """States in the middle of a manoeuvre."""
    draw = np.random.default_rng(seed)
    x = model.initial(n)
    x[:, 0:6] = draw.normal(size=(n, 6))
    x[:, 6:10] = Rotation.random(n, random_state=seed).as_quat()
    x[:, 10:13] = 2.0 * draw.normal(size=(n, 3))
    x[:, model.state["rotors_radps"]] = draw.uniform(
        600.0, 1200.0, (n, model.state["rotors_radps"].stop - 13)
    )
    return x


def oracle(
    p: MulticopterParameters, x: FloatArray, u: FloatArray, around: FloatArray, t_s: float
) -> FloatArray:
    """The state after t_s of the equations of the reference's section 2, commands within limits
    and held.
    """
    wind, force, torque = around[0:3], around[3:6], around[6:9]
    density, gravity, factor = around[9] / 1.225, around[10], around[11]
    inertia = np.array(p.inertia_kgm2)

    def slope(_: float, s: FloatArray) -> FloatArray:
        v, q, w, n = s[3:6], s[6:10], s[10:13], s[13:]
        n_dot = (u - n) / p.motor_time_constant_s
        total_force, moment, momentum = np.zeros(3), np.zeros(3), inertia @ w
        for rotor, speed, rate in zip(p.rotors, n, n_dot, strict=True):
            axis, d = np.array(rotor.axis_body), rotor.direction
            push = axis * p.thrust_ns2 * density * factor * speed * abs(speed)
            total_force += push
            moment += np.cross(rotor.p_body_m, push)
            moment += (
                axis
                * d
                * (p.torque_nms2 * density * speed * abs(speed) + p.rotor_inertia_kgm2 * rate)
            )
            momentum -= axis * d * p.rotor_inertia_kgm2 * speed
        moment += torque - density * np.linalg.norm(w) * np.array(p.aero_moment_nms2) @ w
        air = v - wind
        drag = p.drag_ns2pm2 * density * np.linalg.norm(air) * air
        a = (Rotation.from_quat(q).apply(total_force) - drag + force) / p.mass_kg - np.array(
            [0.0, 0.0, gravity]
        )
        x_, y_, z_, s_ = q
        q_dot = 0.5 * np.array([[s_, -z_, y_], [z_, s_, -x_], [-y_, x_, s_], [-x_, -y_, -z_]]) @ w
        return np.concatenate(
            [v, a, q_dot, np.linalg.solve(inertia, moment - np.cross(w, momentum)), n_dot]
        )

    end: FloatArray = solve_ivp(slope, (0.0, t_s), x, method="DOP853", rtol=1e-12, atol=1e-12).y[
        :, -1
    ]
    end[6:10] /= np.linalg.norm(end[6:10])
    return end


def run(
    model: Model, x: FloatArray, u: FloatArray, around: FloatArray, dt_s: float, steps: int
) -> FloatArray:
    """States after compiled steps."""
    x = x.copy()
    step = model.native()
    assert step is not None
    step(x, u, around, dt_s, steps)
    return x


@pytest.mark.parametrize(("rotors", "tilt_rad"), [(4, 0.0), (6, 0.3), (8, 0.15), (3, 0.1)])
def test_oracle(rotors: int, tilt_rad: float) -> None:
    parameters = frame(rotors, tilt_rad)
    model = FlightGogglesMulticopter(parameters)
    x, u = start(model), np.linspace(900.0, 1100.0, rotors)[None]
    end = oracle(parameters, x[0], u[0], AROUND[0], 0.25)
    np.testing.assert_allclose(
        run(model, x, u, AROUND, 1.0 / 9600.0, 2400)[0], end, rtol=1e-9, atol=1e-9
    )
    by_numpy = x
    for _ in range(240):
        by_numpy = model.step(by_numpy, u, AROUND, 1.0 / 960.0)
    np.testing.assert_allclose(by_numpy[0], end, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize(("integrator", "order"), [("euler", 1.0), ("rk4", 4.0)])
def test_order_of_convergence(integrator: Integrator, order: float) -> None:
    parameters = frame(6, 0.2)
    model = FlightGogglesMulticopter(parameters, integrator=integrator)
    x, u = start(model), np.linspace(900.0, 1100.0, 6)[None]
    end = oracle(parameters, x[0], u[0], AROUND[0], 0.2)
    errors = [
        float(np.linalg.norm(run(model, x, u, AROUND, 0.2 / steps, steps)[0, :13] - end[:13]))
        for steps in (100, 200, 400)
    ]
    for coarse, fine in itertools.pairwise(errors):
        assert math.log2(coarse / fine) == pytest.approx(order, abs=0.12)


def test_momentum_and_energy_without_air() -> None:
    """No density: neither thrust nor drag.

    Rotors exchange angular momentum with the body, nothing else acts.
    """
    parameters = frame(6, 0.3)
    model = FlightGogglesMulticopter(parameters)
    vacuum = ENVIRONMENT.pack({"gravity_mps2": 9.81})
    inertia = np.array(parameters.inertia_kgm2)

    def angular(x: FloatArray) -> FloatArray:
        spin = parameters.rotor_inertia_kgm2 * (x[0, 13:] @ parameters.twists_body)
        momentum: FloatArray = Rotation.from_quat(x[0, 6:10]).apply(inertia @ x[0, 10:13] - spin)
        return momentum

    def energy(x: FloatArray) -> tuple[float, float]:
        w, v = x[0, 10:13], x[0, 3:6]
        return 0.5 * float(w @ inertia @ w), 0.5 * float(v @ v) + 9.81 * float(x[0, 2])

    x = start(model)
    changing = run(
        model, x, np.array([[1500.0, 300.0, 1400.0, 200.0, 900.0, 0.0]]), vacuum, 1 / 960, 960
    )
    np.testing.assert_allclose(angular(changing), angular(x), rtol=1e-7)
    assert np.linalg.norm(changing[0, 10:13] - x[0, 10:13]) > 1.0
    np.testing.assert_allclose(
        changing[0, 3:6], x[0, 3:6] - [0.0, 0.0, 9.81], rtol=1e-12, atol=1e-12
    )
    np.testing.assert_allclose(
        changing[0, 0:3], x[0, 0:3] + x[0, 3:6] - [0.0, 0.0, 4.905], rtol=1e-12, atol=1e-12
    )

    steady = run(model, x, x[:, 13:], vacuum, 1 / 960, 960)
    np.testing.assert_allclose(angular(steady), angular(x), rtol=1e-7)
    np.testing.assert_allclose(energy(steady), energy(x), rtol=1e-8)


@pytest.mark.parametrize("parameters", [MulticopterParameters(), frame(6, 0.0), frame(8, 0.0)])
def test_hover(parameters: MulticopterParameters) -> None:
    fleet = Fleet(FlightGogglesMulticopter(parameters), engine="native")
    fleet.command(np.full(len(parameters.rotors), parameters.hover_radps))
    fleet.advance(960)
    np.testing.assert_allclose(fleet.x, fleet.model.initial(1), atol=1e-9)
    np.testing.assert_allclose(fleet.truth().f_body_mps2, [[0.0, 0.0, 9.81]], atol=1e-9)


def test_rotors_that_push_all_ways_fly_too() -> None:
    """Twelve of them, two each way along every axis.

    None of them hovers, and none turns before it is told.
    """
    axes = [
        tuple(side * (axis == k) for k in range(3)) for axis in range(3) for side in (1.0, -1.0)
    ]
    ring = [
        Rotor((0.2 * x, 0.2 * y, 0.2 * z), (x, y, z), turn)
        for x, y, z in axes
        for turn in (1.0, -1.0)
    ]
    fleet = Fleet(
        FlightGogglesMulticopter(MulticopterParameters(rotors=tuple(ring))), engine="numpy"
    )
    np.testing.assert_array_equal(fleet.x[:, 13:], 0.0)
    fleet.command([2000.0 * (rotor.axis_body[0] > 0.5) for rotor in ring])
    fleet.advance(96)
    assert fleet.x[0, 3] > 0.5
    assert fleet.x[0, 5] == pytest.approx(-0.981, abs=0.01)


def test_derived_figures() -> None:
    parameters = MulticopterParameters()
    assert parameters.hover_radps == pytest.approx(1133.1510991975, rel=1e-12)
    assert 4 * parameters.nominal_of("thrust_ns2") * parameters.nominal_of(
        "motor_max_radps"
    ) ** 2 == pytest.approx(36.98, abs=5e-3)
    fleet = Fleet(FlightGogglesMulticopter(parameters), engine="native")
    fleet.advance(20 * 960)
    assert fleet.x[0, 5] == pytest.approx(-9.90, abs=5e-3)  # terminal fall speed


def test_allocation_is_flightgoggles_own() -> None:
    """Section 4: signs of moments and thrust of each rotor."""
    p, arm = MulticopterParameters(), 0.08
    signs = np.array([[1, -1, -1, 1], [1, 1, 1, 1], [-1, 1, -1, 1], [-1, -1, 1, 1]])
    kf = p.nominal_of("thrust_ns2")
    per_rotor = 4.0 * np.array([arm * kf, arm * kf, p.nominal_of("torque_nms2"), kf])
    np.testing.assert_allclose(p.allocation(), signs / per_rotor, rtol=1e-9)


def test_allocation_of_any_rotors_gives_back_moments_and_thrust() -> None:
    p = frame(8, 0.15)
    squares = p.allocation() @ np.array([0.02, -0.03, 0.01, 18.0])
    made = p.thrust_ns2 * squares @ p.levers_m + p.torque_nms2 * squares @ p.twists_body
    np.testing.assert_allclose(made, [0.02, -0.03, 0.01], rtol=1e-9, atol=1e-12)
    assert p.thrust_ns2 * squares @ p.axes_body[:, 2] == pytest.approx(18.0, rel=1e-9)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: MulticopterParameters(rotors=()), "at least one rotor"),
        (lambda: MulticopterParameters(mass_kg=0.0), "mass_kg must be positive"),
        (lambda: MulticopterParameters(drag_ns2pm2=math.nan), "drag_ns2pm2 must not be negative"),
        (lambda: MulticopterParameters(motor_min_radps=2200.0), "motor_min_radps"),
        (
            lambda: MulticopterParameters(inertia_kgm2=((1, 2, 0), (2, 1, 0), (0, 0, 1))),
            "positive definite",
        ),
        (lambda: Rotor((0, 0, 0), (0, 0, 2)), "unit vector"),
        (lambda: Rotor((0, 0, 0), direction=0.5), "direction must be 1 or -1"),
        (lambda: FlightGogglesMulticopter(compat="airsim"), "compat must be flightgoggles"),  # type: ignore[arg-type]
        (lambda: FlightGogglesMulticopter(integrator="leapfrog"), "euler or rk4"),  # type: ignore[arg-type]
        (lambda: FlightGogglesMulticopter(mode="attitude"), "motor_speeds, rates, waypoint"),  # type: ignore[arg-type]
        (
            lambda: FlightGogglesMulticopter(
                MulticopterParameters(rotors=quad_x()[:3]), mode="rates"
            ),
            "command motor_speeds",
        ),
        (
            lambda: FlightGogglesMulticopter(
                mode="waypoint", waypoint_gains=WaypointGains(most_acceleration_mps2=9.9)
            ),
            "would turn over",
        ),
        (
            lambda: MulticopterParameters(rotors=(Rotor((0, 0, 0), (1, 0, 0)),)).hover_radps,
            "cannot hover",
        ),
    ],
)
def test_what_cannot_be(make: object, said: str) -> None:
    assert callable(make)
    with pytest.raises(ValueError, match=said):
        make()
