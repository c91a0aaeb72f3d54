"""Compiled truths against those of the NumPy models, in random states and environments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.vehicles.test_vehicles_motors import GOGGLES, MARE, SIM
from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.geometry import q_normalize
from vil_simulation.vehicles.airsim.airframes import FRAMES, Tilt
from vil_simulation.vehicles.airsim.model import AirsimMultirotor
from vil_simulation.vehicles.car import KinematicBicycle
from vil_simulation.vehicles.fleet import Fleet
from vil_simulation.vehicles.flightgoggles.model import FlightGogglesMulticopter
from vil_simulation.vehicles.flightmare.model import FlightmareQuadrotor
from vil_simulation.vehicles.flightmare.parameters import FLIGHTMARE, QUADROTOR_ENV
from vil_simulation.vehicles.model import Model
from vil_simulation.vehicles.multicopter import MulticopterParameters, Rotor, quad_x

pytest.importorskip("numba")

_SIX = MulticopterParameters(
    rotors=(
        *quad_x(0.2),
        Rotor((0.3, 0.0, 0.1), (0.6, 0.0, 0.8)),
        Rotor((-0.3, 0.0, 0.0), direction=-1.0),
    ),
    inertia_kgm2=((0.005, 1e-4, 2e-4), (1e-4, 0.006, -1e-4), (2e-4, -1e-4, 0.007)),
)
_TILTING = replace(
    FRAMES["generic"],
    tilts=(Tilt((0.0, 1.0, 0.0), (0.1, 0.0, 0.0), -0.3, 0.4),),
    rotors=tuple(replace(rotor, tilt=0) for rotor in FRAMES["generic"].rotors),
)
_MODELS: dict[str, Callable[[], Model]] = {
    "goggles": FlightGogglesMulticopter,
    "goggles, six rotors": lambda: FlightGogglesMulticopter(_SIX, integrator="euler"),
    "goggles, motors that differ, rates": lambda: FlightGogglesMulticopter(GOGGLES, mode="rates"),
    "goggles, waypoint": lambda: FlightGogglesMulticopter(mode="waypoint"),
    "mare": lambda: FlightmareQuadrotor(FLIGHTMARE),
    "mare, with drag, rates": lambda: FlightmareQuadrotor(QUADROTOR_ENV, "rates"),
    "mare, motors that differ": lambda: FlightmareQuadrotor(MARE),
    "airsim": AirsimMultirotor,
    "airsim, motors that differ, rates": lambda: AirsimMultirotor(SIM, mode="rates"),
    "airsim, compat": lambda: AirsimMultirotor("hexa_x", compat="airsim"),
    "airsim, tilting": lambda: AirsimMultirotor(_TILTING),
}


def _placed(model: Model, n: int, seed: int) -> Fleet:
    """Return vehicles in random states, commands and environments."""
    fleet, rng = Fleet(model, n), np.random.default_rng(seed)
    fleet.x[:] = rng.normal(size=fleet.x.shape)
    for name, most in (("rotors_radps", 2000.0), ("asked_radps", 2000.0), ("rotors_control", 1.0)):
        if name in model.state:
            rows = fleet.x[:, model.state[name]]
            rows[:] = rng.uniform(0.0, most, rows.shape)
    if "rotors_output" in model.state:
        rows = fleet.x[:, model.state["rotors_output"]]
        rows[:] = rng.uniform(0.0, 1.0, rows.shape)
    fleet.x[:, model.state["q_world_body"]] = q_normalize(fleet.x[:, model.state["q_world_body"]])
    fleet.u[:] = rng.uniform(-100.0, 2500.0, fleet.u.shape)
    fleet.around[:] = rng.normal(size=fleet.around.shape)
    fleet.around[:, 9:] = rng.uniform((0.8, 9.7, 0.9), (1.3, 9.9, 1.3), (n, 3))
    return fleet


@pytest.mark.parametrize("name", _MODELS)
@given(
    n=st.sampled_from((1, 3, 16, 17)), seed=st.integers(0, 2**32 - 1), steps=st.integers(0, 10**9)
)
def test_the_compiled_truth_is_that_of_numpy(name: str, n: int, seed: int, steps: int) -> None:
    fleet = _placed(_MODELS[name](), n, seed)
    fleet.steps = steps
    before = [fleet.x.copy(), fleet.u.copy(), fleet.around.copy()]
    truth = fleet.truth()
    expected = fleet.model.truth(fleet.t_ns, fleet.x, fleet.u, fleet.around)
    assert fleet.engine == "native"
    assert truth.t_ns == expected.t_ns
    for field, found, right in zip(truth._fields[1:], truth[1:], expected[1:], strict=True):
        scale = max(1.0, float(np.abs(right).max(initial=0.0)))
        np.testing.assert_allclose(found, right, rtol=1e-12, atol=1e-12 * scale, err_msg=field)
        assert not any(
            np.may_share_memory(found, rows) for rows in (fleet.x, fleet.u, fleet.around)
        ), field
    for rows, old in zip((fleet.x, fleet.u, fleet.around), before, strict=True):
        np.testing.assert_array_equal(rows, old)


def test_the_numpy_engine_and_models_without_a_kernel_have_their_truth_of_numpy() -> None:
    model = FlightGogglesMulticopter()
    rows = [Fleet(model, engine=engine).truth().f_body_mps2 for engine in ("numpy", "native")]
    np.testing.assert_allclose(rows[0], rows[1], rtol=1e-12)
    assert Fleet(KinematicBicycle()).truth().rotors_radps.shape == (1, 0)


def test_a_truth_of_replaced_arrays_is_checked_first() -> None:
    fleet = Fleet(FlightGogglesMulticopter(), 2)
    fleet.x = np.zeros((1, 17))
    with pytest.raises(ValueError, match=r"x of 2 vehicles has shape \(2, 17\), not \(1, 17\)"):
        fleet.truth()


@given(
    ns=st.fractions(min_value=Fraction(1, 10), max_value=10**8, max_denominator=10**6),
    step=st.integers(0, 10**10),
)
def test_time_is_the_number_of_steps_rounded_to_the_nanosecond(ns: Fraction, step: int) -> None:
    fleet = Fleet(KinematicBicycle(), dt_s=ns / NS_PER_S)
    assert fleet.t_of(step) == round(step * ns)
    assert all(a <= b for a, b in pairwise(fleet.t_of(step + k) for k in range(4)))
