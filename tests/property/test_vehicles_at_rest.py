"""Vehicles that hover or stand: what decays becomes zero, and nothing else changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from vil_bridge.core.types import FloatArray
from vil_simulation.vehicles import layout
from vil_simulation.vehicles.airsim.model import AirsimMultirotor
from vil_simulation.vehicles.car import KinematicBicycle
from vil_simulation.vehicles.flightgoggles.model import FlightGogglesMulticopter
from vil_simulation.vehicles.flightmare.model import FlightmareQuadrotor
from vil_simulation.vehicles.flightmare.parameters import QUADROTOR_ENV
from vil_simulation.vehicles.layout import LEAST, flush
from vil_simulation.vehicles.model import Model

MOST = 33


@dataclass(frozen=True)
class Rest:
    """Vehicle with the command (du,) that lets it hover or stops its motors; steps of dt_s.

    ``decays``: without flushing the NumPy model has numbers below ``LEAST`` at the end of its
    flight.
    """

    make: Callable[[], Model]
    command: tuple[float, ...]
    dt_s: float
    decays: bool = False

    def disturbed(self, n: int, seed: int) -> tuple[Model, FloatArray, FloatArray]:
        """Return the model, states away from rest and commands, (n, columns) each."""
        model = self.make()
        x, noise = model.initial(MOST), np.random.default_rng(seed)
        for name, size in (("p_world_m", 0.5), ("v_world_mps", 0.5), ("w_body_radps", 1.0)):
            x[:, model.state[name]] += size * noise.normal(size=(MOST, 3))
        for name, high in (
            ("rotors_control", 1.0),
            ("rotors_radps", 500.0),
            ("speed_mps", 3.0),
            ("steering_rad", 0.3),
        ):
            if name in model.state:
                rows = x[:, model.state[name]]
                rows[:] = noise.uniform(0.1 * high, high, rows.shape)
        return model, x[:n].copy(), np.tile(self.command, (n, 1))

    def flown(self, n: int, seed: int, seconds: float) -> FloatArray:
        """Return states after the NumPy model's steps."""
        model, x, u = self.disturbed(n, seed)
        around = model.calm(n)
        for _ in range(round(seconds / self.dt_s)):
            x = model.step(x, u, around, self.dt_s)
        return x

    def flown_by_kernel(self, n: int, seed: int, *seconds: float) -> FloatArray:
        """Return states after the kernel's steps, one call for each of the times."""
        model, x, u = self.disturbed(n, seed)
        step = model.native()
        assert step is not None
        for part_s in seconds:
            step(x, u, model.calm(n), self.dt_s, round(part_s / self.dt_s))
        return x


COMPILED = {
    "flightgoggles off": Rest(FlightGogglesMulticopter, (0.0,) * 4, 1 / 250, decays=True),
    "flightgoggles off, euler": Rest(
        lambda: FlightGogglesMulticopter(integrator="euler"), (0.0,) * 4, 1 / 250, decays=True
    ),
    "flightgoggles off, compat": Rest(
        lambda: FlightGogglesMulticopter(compat="flightgoggles"), (0.0,) * 4, 1 / 250, decays=True
    ),
    "flightgoggles rates": Rest(
        lambda: FlightGogglesMulticopter(mode="rates"), (9.81, 0.0, 0.0, 0.0), 1 / 250
    ),
    "flightgoggles waypoint": Rest(
        lambda: FlightGogglesMulticopter(mode="waypoint"), (0.0,) * 4, 1 / 250
    ),
    "flightmare off": Rest(lambda: FlightmareQuadrotor(QUADROTOR_ENV), (0.0,) * 4, 1 / 200),
    "flightmare rates": Rest(
        lambda: FlightmareQuadrotor(mode="rates"), (9.81, 0.0, 0.0, 0.0), 1 / 200
    ),
    "airsim off": Rest(AirsimMultirotor, (0.0,) * 4, 0.003, decays=True),
    "airsim position": Rest(lambda: AirsimMultirotor(mode="position"), (0.0,) * 6, 0.003),
}
ALL = COMPILED | {
    "flightgoggles off, dead motor": Rest(
        FlightGogglesMulticopter, (600.0, 600.0, 600.0, 0.0), 1 / 250, decays=True
    ),
    "flightmare off, compat": Rest(
        lambda: FlightmareQuadrotor(QUADROTOR_ENV, compat="flightmare"), (0.0,) * 4, 0.02
    ),
    "bicycle": Rest(KinematicBicycle, (0.0, 0.0), 0.1, decays=True),
}


def least_of(x: FloatArray) -> float:
    """Return the smallest size of numbers that are not zero."""
    return float(np.abs(x[x != 0.0]).min())


@pytest.mark.parametrize("name", COMPILED)
def test_no_number_of_a_long_rest_is_so_small_that_products_underflow(name: str) -> None:
    x = COMPILED[name].flown_by_kernel(3, 1, 60.0)
    assert np.isfinite(x).all()
    assert least_of(x) > 1e-40


@pytest.mark.parametrize("name", ALL)
def test_the_numpy_model_flushes_and_nothing_else_changes(name: str) -> None:
    seconds = 25.0 if name == "bicycle" else 2.0
    flushed = ALL[name].flown(4, 7, seconds)
    assert least_of(flushed) > 1e-40
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "LEAST", 0.0)
        kept = ALL[name].flown(4, 7, seconds)
    np.testing.assert_allclose(flushed, kept, rtol=0.0, atol=1e-12)
    if ALL[name].decays:
        assert least_of(kept) < LEAST, "this case shows what flushing does"


@pytest.mark.parametrize("name", COMPILED)
def test_rest_has_the_same_bits_in_any_batch_and_any_number_of_calls(name: str) -> None:
    expected = COMPILED[name].flown_by_kernel(MOST, 2, 6.0)
    for n, seconds in ((1, (6.0,)), (16, (3.0, 0.6, 2.4)), (17, (1.2, 4.8))):
        assert COMPILED[name].flown_by_kernel(n, 2, *seconds).tobytes() == expected[:n].tobytes()


def test_flushing_keeps_what_counts() -> None:
    x = np.array([[1e-29, -1e-29, 1e-31, -5e-324, 0.0, 1.0, np.inf, -np.inf, np.nan]])
    assert flush(x) is x
    np.testing.assert_array_equal(x, [[1e-29, -1e-29, 0.0, 0.0, 0.0, 1.0, np.inf, -np.inf, np.nan]])
