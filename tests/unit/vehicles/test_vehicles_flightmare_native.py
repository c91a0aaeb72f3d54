"""The compiled Flightmare quadrotor: as the NumPy one after 5 s, and the same bits in any batch."""

from __future__ import annotations

import numpy as np
import pytest

from vil_bridge.core.types import FloatArray
from vil_simulation.vehicles.fleet import Fleet
from vil_simulation.vehicles.flightmare.model import FlightmareMode, FlightmareQuadrotor
from vil_simulation.vehicles.flightmare.parameters import AGILICIOUS, KINGFISHER
from vil_simulation.vehicles.model import NativeStep


def kernel(model: FlightmareQuadrotor) -> NativeStep:
    native = model.native()
    assert native is not None
    return native


def swarm(model: FlightmareQuadrotor, n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Random states in flight, commands and surroundings."""
    rng = np.random.default_rng(n)
    x = model.initial(n)
    q = rng.standard_normal((n, 4))
    x[:, 6:10] = q / np.linalg.norm(q, axis=1, keepdims=True)
    x[:, 0:6] = rng.standard_normal((n, 6))
    x[:, 10:13] = 0.3 * rng.standard_normal((n, 3))
    x[:, 13:17] = rng.uniform(0.0, 2000.0, (n, 4))
    u = model.hover_thrust_n * rng.uniform(0.9, 1.1, (n, 1)) * np.ones((1, 4))
    if model.mode == "rates":
        u = np.concatenate(
            (rng.uniform(-5.0, 60.0, (n, 1)), rng.uniform(-8.0, 8.0, (n, 3))), axis=1
        )
    around = model.calm(n)
    around[:, :9] = 0.003 * rng.standard_normal((n, 9))
    around[:, 11] = rng.uniform(0.9, 1.1, n)
    return x, u, around


@pytest.mark.parametrize("mode", ["thrusts", "rates"])
def test_as_the_reference_after_5_s(mode: FlightmareMode) -> None:
    model = FlightmareQuadrotor(AGILICIOUS, mode)
    x, u, around = swarm(model, 19)
    reference = x
    for _ in range(500):
        reference = model.step(reference, u, around, 0.01)
    kernel(model)(x, u, around, 0.01, 500)
    np.testing.assert_allclose(x, reference, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("mode", ["thrusts", "rates"])
def test_the_same_bits_in_any_batch_and_place(mode: FlightmareMode) -> None:
    model = FlightmareQuadrotor(KINGFISHER, mode)
    step = kernel(model)
    first, u, around = swarm(model, 100)
    whole = first.copy()
    step(whole, u, around, 0.01, 40)
    for n in (1, 5, 16, 17, 33):
        part = first[:n].copy()
        step(part, u[:n], around[:n], 0.01, 40)
        assert part.tobytes() == whole[:n].tobytes(), n
    order = np.random.default_rng(1).permutation(100)
    mixed = first[order]
    step(mixed, u[order], around[order], 0.01, 40)
    assert mixed.tobytes() == whole[order].tobytes()


def test_many_steps_in_one_call_are_many_calls() -> None:
    model = FlightmareQuadrotor(KINGFISHER, "rates")
    step = kernel(model)
    x, u, around = swarm(model, 3)
    y = x.copy()
    step(x, u, around, 1 / 960, 30)
    for _ in range(30):
        step(y, u, around, 1 / 960, 1)
    assert x.tobytes() == y.tobytes()


def test_fleets_take_the_kernel_but_for_compat() -> None:
    assert Fleet(FlightmareQuadrotor(), 2).engine == "native"
    assert Fleet(FlightmareQuadrotor(compat="flightmare"), 2).engine == "numpy"
