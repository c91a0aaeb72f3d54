"""Fleets: commands and their times, placing, what is refused, vehicles that are lost, life
without numba.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

import numpy as np
import pytest

from tests.support.programs import run
from vil_bridge.core.types import FloatArray
from vil_simulation.vehicles.airsim.model import AirsimMultirotor
from vil_simulation.vehicles.car import DubinsCar, KinematicBicycle
from vil_simulation.vehicles.fleet import Engine, Fleet
from vil_simulation.vehicles.flightgoggles.model import FlightGogglesMulticopter
from vil_simulation.vehicles.flightmare.model import FlightmareQuadrotor
from vil_simulation.vehicles.model import Model

_MS: Final = 1_000_000


def fleet(n: int = 3, **options: Any) -> Fleet:
    """Cars that step every 10 ms: nothing to compile."""
    return Fleet(DubinsCar(), n, dt_s=Fraction(1, 100), **options)


def speeds(flying: Fleet) -> list[float]:
    row: list[float] = flying.u[:, 0].tolist()
    return row


def test_time_is_the_number_of_steps() -> None:
    flying = Fleet(DubinsCar(), dt_s=Fraction(1, 960))
    flying.advance(961)
    assert flying.t_ns == 1_001_041_667
    assert flying.t_of(960 * 10**6) == 10**6 * 10**9


def test_a_command_takes_effect_in_the_first_step_after_its_time_and_the_delay() -> None:
    flying = fleet(1, delay_s=0.025)
    flying.command((1.0, 0.0))  # of 0 ms: due at 25
    flying.command((2.0, 0.0), t_ns=30 * _MS)  # due at 55
    flying.command((3.0, 0.0), t_ns=20 * _MS)  # due at 45
    seen = []
    for _ in range(8):
        flying.advance()
        seen.append(speeds(flying)[0])
    assert seen == [0.0, 0.0, 0.0, 1.0, 1.0, 3.0, 2.0, 2.0]


def test_of_commands_that_fall_due_in_one_step_the_newest_wins() -> None:
    flying = fleet(1)
    flying.command((2.0, 0.0), t_ns=9 * _MS)
    flying.command((1.0, 0.0), t_ns=8 * _MS)
    flying.command((3.0, 0.0), t_ns=9 * _MS)
    flying.advance(2)
    assert speeds(flying) == [3.0]


@pytest.mark.parametrize("one_waits", [False, True])
def test_a_command_of_the_past_takes_effect_at_once_whatever_else_waits(one_waits: bool) -> None:
    flying = fleet(2)
    flying.advance(10)
    if one_waits:
        flying.command((5.0, 0.0), t_ns=10**15)
    flying.command((2.0, 0.0), t_ns=90 * _MS)
    flying.command((1.0, 0.0), which=1, t_ns=80 * _MS)
    assert speeds(flying) == [2.0, 1.0]
    flying.advance()
    assert speeds(flying) == [2.0, 1.0]


def test_a_command_that_fell_due_with_the_last_step_does_not_undo_a_later_one() -> None:
    flying = fleet(1)
    flying.command((1.0, 0.0), t_ns=10 * _MS)
    flying.advance()
    flying.command((2.0, 0.0))
    flying.advance()
    assert speeds(flying) == [2.0]


def test_commands_of_some_vehicles_leave_the_others() -> None:
    flying = fleet(4)
    flying.command([(1.0, 0.0), (2.0, 0.0)], which=[3, 0])
    flying.command((4.0, 0.5), which=np.int64(2))  # type: ignore[arg-type]
    assert speeds(flying) == [2.0, 0.0, 4.0, 1.0]


def test_commands_are_copied() -> None:
    flying, mine = fleet(1), np.array([1.0, 0.0])
    flying.command(mine, t_ns=10 * _MS)
    mine[:] = 9.0
    flying.advance(2)
    assert speeds(flying) == [1.0]


def test_waiting_commands_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vil_simulation.vehicles.fleet._MOST_WAITING", 5)
    flying = fleet(1)
    for k in range(5):
        flying.command((1.0, 0.0), t_ns=(k + 1) * _MS)
    with pytest.raises(ValueError, match="5 commands are under way already"):
        flying.command((1.0, 0.0), t_ns=_MS)
    flying.command((3.0, 0.0))
    assert speeds(flying) == [3.0]


@pytest.mark.parametrize(
    ("act", "match"),
    [
        (lambda f: f.command(5.0), r"a command to 3 vehicles is \(2,\) or \(3, 2\): \(\)"),
        (lambda f: f.command(np.ones((3, 1))), r"\(3, 1\)"),
        (lambda f: f.command(np.ones((2, 2))), r"\(2, 2\)"),
        (lambda f: f.command((1.0, np.nan)), "must be finite"),
        (lambda f: f.command((1.0, 0.0), which=3), "numbered from 0 to 2, got 3"),
        (lambda f: f.command((1.0, 0.0), which=-1, t_ns=10**12), "numbered from 0 to 2, got -1"),
        (lambda f: f.command((1.0, 0.0), which=[True, False, True]), "numbered from 0 to 2"),
        (lambda f: f.command((1.0, 0.0), which=[1.7]), "numbered from 0 to 2"),
        (lambda f: f.place(9, p_world_m=(0.0, 0.0, 0.0)), "numbered from 0 to 2"),
        (lambda f: f.place(p_world_m=(0.0, 0.0)), "shape"),
        (lambda f: f.place(p_world_m=(0.0, np.inf, 0.0)), "p_world_m must be finite"),
        (lambda f: f.place(q_world_body=(0.0, 0.0, 0.0, 0.0)), "q_world_body must not be zero"),
        (lambda f: f.advance(-1), "steps must not be negative, got -1"),
        (lambda _: fleet(0), "at least one vehicle"),
        (lambda _: fleet(1, delay_s=-0.1), "delay_s must not be negative"),
        (lambda _: Fleet(DubinsCar(), dt_s=Fraction(0)), "dt_s must be positive, got 0"),
        (lambda _: Fleet(DubinsCar(), dt_s=Fraction(-1, 960)), "dt_s must be positive"),
        (
            lambda _: fleet(1, engine="native"),
            "DubinsCar has no compiled kernel here: engine='auto'",
        ),
    ],
)
def test_what_is_refused(act: Callable[[Fleet], object], match: str) -> None:
    flying = fleet(3)
    with pytest.raises(ValueError, match=match):
        act(flying)
    flying.advance(2)
    np.testing.assert_array_equal(flying.x, DubinsCar().initial(3))


def test_steps_and_fields_of_another_kind_are_refused() -> None:
    with pytest.raises(TypeError):
        fleet().advance(2.5)  # type: ignore[arg-type]
    with pytest.raises(KeyError):
        fleet().place(height_m=1.0)


def test_placing_scales_attitudes_and_leaves_the_others() -> None:
    flying = fleet(3)
    flying.place(
        [0, 2], p_world_m=[(1.0, 2.0, 3.0), (4.0, 5.0, 6.0)], q_world_body=(0.0, 0.0, 0.707, 0.707)
    )
    np.testing.assert_array_equal(
        flying.x[:, :3], [(1.0, 2.0, 3.0), (0.0, 0.0, 0.0), (4.0, 5.0, 6.0)]
    )
    np.testing.assert_allclose(np.linalg.norm(flying.x[:, 6:10], axis=1), 1.0, atol=1e-15)
    assert flying.x[2, 8] == pytest.approx(0.5**0.5)


@pytest.mark.parametrize(
    "of",
    [
        lambda a: a.astype(np.float32),
        np.asfortranarray,
        lambda a: np.repeat(a, 2, axis=1)[:, ::2],
        lambda a: np.broadcast_to(a[:1], a.shape),
        lambda a: a.astype(np.int64),
    ],
    ids=["float32", "fortran", "strided", "broadcast", "int"],
)
@pytest.mark.parametrize("engine", ["numpy", "native"])
def test_arrays_of_any_kind_may_take_the_place_of_states_and_commands(
    engine: Engine, of: Callable[[FloatArray], FloatArray]
) -> None:
    model = FlightmareQuadrotor()
    x = np.rint(10.0 * model.initial(2)) + np.array([0.0] * 9 + [-9.0] + [0.0] * 3 + [700.0] * 4)
    u = np.full((2, 4), 2.0)
    plain, odd = Fleet(model, 2, engine=engine), Fleet(model, 2, engine=engine)
    plain.x, plain.u, odd.x, odd.u = x.copy(), u, of(x), of(u)
    plain.advance(3)
    odd.advance(3)
    np.testing.assert_array_equal(odd.x, plain.x)
    assert odd.x.dtype == np.float64


@pytest.mark.parametrize("name", ["x", "u", "around"])
def test_arrays_of_another_shape_do_not_reach_the_kernel(name: str) -> None:
    flying = Fleet(FlightmareQuadrotor(), 20)
    setattr(flying, name, np.zeros((5, 4)))
    with pytest.raises(ValueError, match=rf"{name} of 20 vehicles has shape .*, not \(5, 4\)"):
        flying.advance()


MODELS: Final[dict[str, Callable[[], Model]]] = {
    "flightgoggles": FlightGogglesMulticopter,
    "flightgoggles waypoint": lambda: FlightGogglesMulticopter(mode="waypoint"),
    "flightmare": lambda: FlightmareQuadrotor(mode="rates"),
    "flightmare compat": lambda: FlightmareQuadrotor(compat="flightmare"),
    "airsim": lambda: AirsimMultirotor(mode="position"),
    "dubins": DubinsCar,
    "bicycle": KinematicBicycle,
}


@pytest.mark.parametrize("engine", ["auto", "numpy"])
@pytest.mark.parametrize("name", MODELS)
def test_a_vehicle_that_is_lost_changes_no_bit_of_the_others(name: str, engine: Engine) -> None:
    model = MODELS[name]()
    well, ill = Fleet(model, 19, engine=engine), Fleet(model, 19, engine=engine)
    u = np.random.default_rng(2).uniform(0.0, 1.0, well.u.shape)
    for flying in (well, ill):
        flying.command(u)
    ill.x[7] = np.nan
    well.advance(20)
    ill.advance(20)
    others = np.arange(19) != 7
    assert ill.x[others].tobytes() == well.x[others].tobytes()
    for seen, expected in zip(ill.truth()[1:], well.truth()[1:], strict=True):
        np.testing.assert_array_equal(seen[others], expected[others])


WITHOUT_EXTRAS: Final = """
import importlib, pkgutil, sys
for name in ("numba", "pygeomag", "gymnasium", "ray", "torch", "stable_baselines3"):
    sys.modules[name] = None
import vil_simulation.vehicles
for module in pkgutil.walk_packages(vil_simulation.vehicles.__path__, "vil_simulation.vehicles."):
    importlib.import_module(module.name)
from vil_simulation.vehicles.airsim.model import AirsimMultirotor
from vil_simulation.vehicles.environment.wind import DrydenGusts
from vil_simulation.vehicles.fleet import Fleet
from vil_simulation.vehicles.flightgoggles.model import FlightGogglesMulticopter
from vil_simulation.vehicles.flightmare.model import FlightmareQuadrotor
for model in (AirsimMultirotor(), FlightGogglesMulticopter(), FlightmareQuadrotor()):
    fleet = Fleet(model, 2, disturbances=[DrydenGusts(8.0, 1)])
    fleet.advance(2)
    assert fleet.engine == "numpy", fleet.engine
    try:
        Fleet(model, engine="native")
    except ValueError as error:
        assert "pip install '.[sim]'" in str(error), error
    else:
        raise AssertionError("native without numba")
"""


@pytest.mark.process
def test_without_the_extras_everything_imports_and_numpy_flies() -> None:
    done = run(sys.executable, "-c", WITHOUT_EXTRAS)
    assert done.returncode == 0, done.stderr
