"""Collisions against closed forms of rigid-body mechanics, and AirSim's own response with its
slips.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from vil_bridge.core.types import FloatArray
from vil_simulation.vehicles.airsim.model import AirsimMultirotor
from vil_simulation.vehicles.contact import Collider, WorldContact, collide
from vil_simulation.vehicles.layout import RIGID_BODY, StateLayout

LAYOUT = StateLayout(*RIGID_BODY)
UP = np.array([[0.0, 0.0, 1.0]])
MASS, RADIUS = 2.0, 0.1
BALL = 0.4 * MASS * RADIUS**2


def state(
    v: object,
    w: object = (0.0, 0.0, 0.0),
    p: object = (0.0, 0.0, 0.1),
    rotvec: object = (0.0, 0.0, 0.0),
) -> FloatArray:
    q = Rotation.from_rotvec(np.asarray(rotvec, dtype=np.float64)).as_quat()
    return LAYOUT.pack({"p_world_m": p, "v_world_mps": v, "w_body_radps": w, "q_world_body": q})


def ball(restitution: float, friction: float) -> Collider:
    return Collider(MASS, np.full(3, BALL), restitution, friction)


def touch(
    point: object = (0.0, 0.0, 0.0), normal: FloatArray = UP, depth_m: float = 0.0
) -> WorldContact:
    return WorldContact(np.array([point], dtype=np.float64), normal, np.array([depth_m]))


def test_a_ball_bounces() -> None:
    after = collide(state((0.0, 0.0, -3.0)), LAYOUT, ball(0.55, 0.5), touch(depth_m=0.02))
    np.testing.assert_allclose(after[0, :6], [0.0, 0.0, 0.12, 0.0, 0.0, 0.55 * 3.0], atol=1e-15)
    np.testing.assert_array_equal(after[0, 10:13], 0.0)


def test_a_ball_slides_when_friction_is_small() -> None:
    """mu (1 + e) v_n is taken from the slide, and 5/2 of it over the radius given to the spin."""
    after = collide(state((4.0, 0.0, -2.0)), LAYOUT, ball(0.5, 0.1), touch())
    slowed = 0.1 * 1.5 * 2.0
    np.testing.assert_allclose(after[0, 3:6], [4.0 - slowed, 0.0, 1.0])
    np.testing.assert_allclose(after[0, 10:13], [0.0, 2.5 * slowed / RADIUS, 0.0])


def test_a_ball_rolls_when_friction_is_large() -> None:
    """Sticking: the contact stands still, 5/7 of the speed remains."""
    after = collide(state((4.0, 0.0, -2.0)), LAYOUT, ball(0.5, 2.0), touch())
    np.testing.assert_allclose(after[0, 3:6], [4.0 * 5.0 / 7.0, 0.0, 1.0])
    np.testing.assert_allclose(after[0, 11] * RADIUS, 4.0 * 5.0 / 7.0)


def test_the_edge_of_coulombs_cone() -> None:
    """Sticks from mu = (2/7) v_t / ((1 + e) v_n)."""
    edge = 2.0 / 7.0 * 4.0 / (1.5 * 2.0)
    for friction, sliding in ((0.99 * edge, True), (1.01 * edge, False)):
        after = collide(state((4.0, 0.0, -2.0)), LAYOUT, ball(0.5, friction), touch())
        slip = after[0, 3] - after[0, 11] * RADIUS
        assert bool(slip > 1e-3) is sliding


def test_impulse_on_the_corner_of_a_turned_box() -> None:
    """A box that falls on a corner, against the textbook's formula in world axes with the full
    inertia tensor.
    """
    sides, turn = np.array([0.4, 0.3, 0.2]), Rotation.from_rotvec([0.3, -0.5, 0.8])
    inertia = MASS / 12.0 * (sides @ sides - sides**2)
    v, w_body = np.array([0.5, -0.3, -2.0]), np.array([0.2, 0.4, -0.6])
    R = turn.as_matrix()
    r = R @ (sides / 2.0 * [1.0, -1.0, -1.0])
    n, w = np.array([0.0, 0.0, 1.0]), R @ w_body
    inverse = R @ np.diag(1.0 / inertia) @ R.T
    u_n = n @ (v + np.cross(w, r))
    j = -(1.0 + 0.3) * u_n / (1.0 / MASS + n @ np.cross(inverse @ np.cross(r, n), r))
    start = state(v, w_body, p=-r, rotvec=turn.as_rotvec())
    after = collide(start, LAYOUT, Collider(MASS, inertia, 0.3, 0.0), touch())
    np.testing.assert_allclose(after[0, 3:6], v + j * n / MASS, rtol=1e-12)
    np.testing.assert_allclose(R @ after[0, 10:13], w + inverse @ np.cross(r, n) * j, rtol=1e-12)
    speed = after[0, 3:6] + np.cross(R @ after[0, 10:13], r)
    assert speed @ n == pytest.approx(-0.3 * u_n)


def test_frictionless_walls_keep_momentum_along_them() -> None:
    wall = np.array([[0.6, -0.8, 0.0]])
    after = collide(
        state((-3.0, 1.0, 0.5), (1.0, 2.0, 3.0)),
        LAYOUT,
        ball(0.7, 0.0),
        touch((-0.06, 0.08, 0.1), wall),
    )
    gained = after[0, 3:6] - [-3.0, 1.0, 0.5]
    np.testing.assert_allclose(np.cross(gained, wall[0]), 0.0, atol=1e-14)
    np.testing.assert_allclose(after[0, 10:13], [1.0, 2.0, 3.0], atol=1e-13)


def energy(x: FloatArray, inertia: FloatArray) -> float:
    return float(0.5 * MASS * x[0, 3:6] @ x[0, 3:6] + 0.5 * inertia @ x[0, 10:13] ** 2)


triples = st.tuples(*[st.floats(-5.0, 5.0)] * 3)


@given(triples, triples, triples, triples, st.floats(0.0, 1.0), st.floats(0.0, 3.0), triples)
def test_energy_never_grows(
    v: tuple[float, ...], w: tuple[float, ...], rotvec: tuple[float, ...], arm: tuple[float, ...],
    restitution: float, friction: float, normal: tuple[float, ...],
) -> None:  # fmt: skip
    length = math.hypot(*normal)
    n = np.array([normal]) / length if length > 0.1 else UP
    inertia = np.array([0.02, 0.03, 0.045])
    x = state(v, w, (0.0, 0.0, 0.0), rotvec)
    after = collide(
        x, LAYOUT, Collider(MASS, inertia, restitution, friction), touch(np.array(arm) / 5.0, n)
    )
    before = energy(x, inertia)
    assert energy(after, inertia) <= before * (1.0 + 1e-9) + 1e-12


def test_only_those_who_touch_and_approach() -> None:
    x = np.concatenate([state((1.0, 0.0, speed)) for speed in (-1.0, -1.0, 1.0)])
    contact = WorldContact(np.zeros((3, 3)), np.repeat(UP, 3, axis=0), np.array([0.0, -0.01, 0.05]))
    kept = x.copy()
    after = collide(x, LAYOUT, ball(0.5, 0.5), contact)
    np.testing.assert_array_equal(x, kept)
    assert after[0, 5] == pytest.approx(0.5)
    np.testing.assert_array_equal(after[1:], x[1:])


@pytest.mark.parametrize("compat", [None, "airsim"])
def test_landing_locks_to_the_ground_until_take_off(compat: str | None) -> None:
    model = AirsimMultirotor(compat="airsim" if compat else None)
    x = model.initial(2)
    s = model.state.split(x)
    s["v_world_mps"][:] = [(0.1, 0.2, -1.0), (1.5, 0.2, -1.0)]
    s["w_body_radps"][:] = 0.3
    s["q_world_body"][:] = Rotation.from_euler("ZYX", [0.7, 0.1, -0.1]).as_quat()
    contact = WorldContact(
        np.array([[0.0, 0.0, -0.05]] * 2), np.repeat(UP, 2, axis=0), np.array([0.01, 0.01])
    )
    after = model.state.split(model.collide(x, contact))
    np.testing.assert_array_equal(after["grounded"].ravel(), [1.0, 0.0])
    np.testing.assert_array_equal(after["v_world_mps"][0], 0.0)
    np.testing.assert_array_equal(after["w_body_radps"][0], 0.0)
    np.testing.assert_allclose(
        after["q_world_body"][0], [0.0, 0.0, math.sin(0.35), math.cos(0.35)], atol=2e-2
    )
    roll_pitch = Rotation.from_quat(after["q_world_body"][0]).as_euler("ZYX")[1:]
    np.testing.assert_allclose(roll_pitch, 0.0, atol=1e-15)
    assert after["v_world_mps"][1, 2] > 0.0
    bump = [-0.05, -0.1, 0.5] if compat else [0.0, 0.0, 0.0]
    np.testing.assert_allclose(after["a_world_mps2"][0], bump, atol=1e-12)
    x = model.collide(x, contact)
    resting = model.step(x, model.neutral(2), model.calm(2), 0.003)
    np.testing.assert_array_equal(resting[0, :13], x[0, :13])


def test_airsims_own_response() -> None:
    """Its formulas as the reference lists them, in NED and FRD with its lever arm in world axes."""
    ned, frd = (
        np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, -1.0]]),
        np.diag([1.0, -1.0, -1.0]),
    )
    model = AirsimMultirotor(compat="airsim")
    m, inertia, e, mu, dt = 1.0, model.inertia_kgm2, 0.55, 0.5, 0.003
    v, w, a, alpha = (
        np.array([3.0, -1.0, 0.5]),
        np.array([0.2, -0.4, 0.3]),
        np.array([0.5, 0.2, -0.1]),
        np.array([1.0, 2.0, -1.0]),
    )
    R = Rotation.from_euler("ZYX", [0.5, -0.2, 0.3]).as_matrix()
    p, point, n, depth = (
        np.array([1.0, 2.0, -3.0]),
        np.array([1.15, 2.05, -3.02]),
        np.array([-0.8, 0.6, 0.0]),
        0.02,
    )

    r, v_c, w_c, n_body = point - p, v + a * dt, w + alpha * dt, R.T @ n
    u = R.T @ v_c + np.cross(w_c, r)
    j = -(1 + e) * (u @ n_body) / (1 / m + np.cross(np.cross(r, n_body) / inertia, r) @ n_body)
    slide = u - n_body * (n_body @ u)
    t = slide / np.linalg.norm(slide)
    j_t = -mu * np.linalg.norm(slide) / (1 / m + np.cross(np.cross(r, t) / inertia, r) @ t)
    v_after = v_c + n * j / m + R @ t * j_t
    w_after = 0.9 * (w_c + np.cross(r, n_body) * j + np.cross(r, t) * j_t / m)
    p_after = p + n * depth + v_after * dt

    x = model.state.pack(
        {
            "p_world_m": ned @ p,
            "v_world_mps": ned @ v,
            "a_world_mps2": ned @ a,
            "q_world_body": Rotation.from_matrix(ned @ R @ frd).as_quat(),
            "w_body_radps": frd @ w,
            "alpha_body_radps2": frd @ alpha,
        }
    )
    after = model.state.split(
        model.collide(x, WorldContact((ned @ point)[None], (ned @ n)[None], np.array([depth])))
    )
    np.testing.assert_allclose(after["v_world_mps"][0], ned @ v_after, rtol=1e-9)
    np.testing.assert_allclose(after["p_world_m"][0], ned @ p_after, rtol=1e-12)
    np.testing.assert_allclose(after["w_body_radps"][0], frd @ w_after, rtol=1e-9)
    np.testing.assert_array_equal(after["a_world_mps2"], 0.0)
    np.testing.assert_array_equal(after["alpha_body_radps2"], 0.0)
