"""Compiled contacts against those of NumPy, which are their oracle."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vil_bridge.core.types import FloatArray
from vil_simulation.vehicles.airsim.model import AirsimMultirotor
from vil_simulation.vehicles.contact import (
    Collider,
    WorldContact,
    collide,
    velocity_changes,
    with_contacts,
)
from vil_simulation.vehicles.flightgoggles.model import FlightGogglesMulticopter
from vil_simulation.vehicles.ground import Ground
from vil_simulation.vehicles.model import Model, TrueState

pytest.importorskip("numba")

MODELS: tuple[Model, ...] = (AirsimMultirotor(), FlightGogglesMulticopter())
BODY = Collider(1.3, np.array([0.02, 0.03, 0.045]), 0.4, 0.6)
COUNT = 40
CASES = [(model, seed) for model in MODELS for seed in range(3)]


def thrown(model: Model, seed: int) -> FloatArray:
    """Return vehicles that fly, sink, stand and lie, in any attitude, around the ground."""
    rng = np.random.default_rng(seed)
    x, s = model.initial(COUNT), model.state
    x[:, s["p_world_m"]] = rng.normal(0.0, 0.2, (COUNT, 3))
    x[:, s["v_world_mps"]] = rng.normal(0.0, 1.0, (COUNT, 3)) * rng.integers(0, 2, (COUNT, 1))
    x[:, s["w_body_radps"]] = rng.normal(0.0, 1.0, (COUNT, 3)) * rng.integers(0, 2, (COUNT, 1))
    q = rng.normal(size=(COUNT, 4))
    q[::2, :2] = 0.02 * rng.normal(size=(COUNT // 2, 2))
    x[:, s["q_world_body"]] = q / np.linalg.norm(q, axis=1, keepdims=True)
    return x


@given(
    st.sampled_from(MODELS),
    st.integers(0, 2**32 - 1),
    st.booleans(),
    st.sampled_from((0.0, 0.01, math.inf)),
)
def test_a_collision(model: Model, seed: int, lock: bool, levels_rad: float) -> None:
    x, rng = thrown(model, seed), np.random.default_rng(seed + 1)
    normals = rng.normal(size=(COUNT, 3)) * [0.3, 0.3, 1.0]
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    points = x[:, model.state["p_world_m"]] + rng.normal(0.0, 0.1, (COUNT, 3))
    contact = WorldContact(points, normals, rng.normal(0.01, 0.02, COUNT))
    landing = {"ground_lock": lock, "levels_rad": levels_rad}
    one, other = (
        collide(x, model.state, BODY, contact, **landing, compiled=c)  # type: ignore[arg-type]
        for c in (True, False)
    )
    np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(("model", "seed"), CASES)
def test_the_ground(model: Model, seed: int) -> None:
    active = np.arange(COUNT) % 5 > 0
    grounds = [Ground(0.05, BODY, model.state, compiled=compiled) for compiled in (True, False)]
    states = [thrown(model, seed) for _ in grounds]
    falls_s = [ground.fall_s(x, active, 200.0) for ground, x in zip(grounds, states, strict=True)]
    lifted = [ground.lift(x, active, 0.01) for ground, x in zip(grounds, states, strict=True)]
    assert falls_s[0] == falls_s[1]
    assert 0 < len(lifted[0]) < COUNT
    np.testing.assert_array_equal(lifted[0], lifted[1])
    np.testing.assert_allclose(states[0], states[1], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(("model", "seed"), CASES)
def test_what_contacts_change(model: Model, seed: int) -> None:
    before, after, which = thrown(model, seed), thrown(model, seed + 1), np.arange(COUNT) % 3 == 0
    found = [np.zeros((COUNT, 6)) for _ in range(2)]
    for out, compiled in zip(found, (True, False), strict=True):
        velocity_changes(before, after, model.state, which, out, compiled=compiled)
    np.testing.assert_array_equal(found[0], found[1])
    truths = [model.truth(0, after, model.neutral(COUNT), model.calm(COUNT)) for _ in range(2)]
    pushed: list[TrueState] = [
        with_contacts(truth, found[0], 1e-3, compiled=compiled)
        for truth, compiled in zip(truths, (True, False), strict=True)
    ]
    for one, other in zip(pushed[0][1:], pushed[1][1:], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
