"""AirSim's kernel against the NumPy model, and its bits against themselves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.vehicle_moves import LoopGains
from vil_simulation.vehicles.airsim.airframes import FRAMES, AirsimAirframe, Compat, Tilt
from vil_simulation.vehicles.airsim.model import AirsimMultirotor
from vil_simulation.vehicles.airsim.simple_flight import MODES, Mode, SimpleFlight
from vil_simulation.vehicles.fleet import Fleet
from vil_simulation.vehicles.model import NativeStep

pytest.importorskip("numba")

DT_S = 0.003


def tilting() -> AirsimAirframe:
    generic = FRAMES["generic"]
    servos = (
        Tilt((0.0, 1.0, 0.0), (0.1, 0.0, 0.0), -0.3, 0.4),
        Tilt((0.0, 0.6, 0.8), (-0.2, 0.0, 0.02), tau_s=0.05),
    )
    tilts = (0, None, 0, 1)
    rotors = tuple(
        replace(rotor, tilt=tilt) for rotor, tilt in zip(generic.rotors, tilts, strict=True)
    )
    return replace(generic, rotors=rotors, tilts=servos)


def native(model: AirsimMultirotor) -> NativeStep:
    step = model.native()
    assert step is not None
    return step


def crowd(model: AirsimMultirotor, n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """States, commands and surroundings that reach every branch.

    Timing out, holding, grounded, lifting off.
    """
    rng = np.random.default_rng(5)
    x, u, around = model.initial(n), model.neutral(n), model.calm(n)
    for columns in model.command.split(u).values():
        columns[:] = 0.3 * rng.normal(size=columns.shape)
    if "rotors_control" in model.command:
        hover = model.airframe.hover_control(model.gravity_mps2)
        u[:, model.command["rotors_control"]] = hover * (
            1.0 + 1e-4 * rng.normal(size=(n, len(model.table.servo)))
        )
    if "throttle" in model.command:
        u[:, model.command["throttle"]] = 0.6
        u[1::7, model.command["throttle"]] = 0.02
    if "yaw_by_rate" in model.command:
        u[::2, model.command["yaw_by_rate"]] = 1.0
    s = model.state.split(x)
    s["p_world_m"][:] = rng.normal(size=(n, 3))
    s["v_world_mps"][:] = rng.normal(size=(n, 3))
    s["w_body_radps"][:] = 0.2 * rng.normal(size=(n, 3))
    s["command_left_s"][::3] = 0.1
    s["command_left_s"][4::6] = 0.0
    s["grounded"][2::5] = 1.0
    around[:, :3] = rng.normal(size=(n, 3))
    around[:, 3:6] = 0.1 * rng.normal(size=(n, 3))
    around[:, 6:9] = 1e-5 * rng.normal(size=(n, 3))
    around[:, 9:] = (1.1, 9.7, 1.02)
    return x, u, around


@pytest.mark.parametrize(
    ("frame", "mode", "compat", "seconds"),
    [
        ("generic", "position", None, 5.0),
        (tilting(), "rotors", "airsim", 5.0),
        (tilting(), "velocity", None, 0.6),
        ("hexa_x", "attitude", "airsim", 0.6),
        ("f450", "rates", None, 0.6),
        ("octo_x", "rotors", None, 0.6),
    ],
)
def test_agrees_with_numpy(
    frame: str | AirsimAirframe, mode: Mode, compat: Compat | None, seconds: float
) -> None:
    model = AirsimMultirotor(frame, mode=mode, compat=compat)
    x, u, around = crowd(model, 8)
    y = x.copy()
    steps = round(seconds / DT_S)
    for _ in range(steps):
        x = model.step(x, u, around, DT_S)
    native(model)(y, u, around, DT_S, steps)
    np.testing.assert_allclose(y, x, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("mode", ["rates", "attitude", "velocity", "position"])
def test_agrees_with_numpy_on_gains_of_each_axis(mode: Mode) -> None:
    flight = SimpleFlight(
        position=LoopGains((0.2, 0.3, 0.4)),
        velocity=LoopGains((0.1, 0.3, 1.5), (0.0, 0.0, 1.0)),
        angle=LoopGains((2.0, 3.0, 1.0)),
        rate=LoopGains((0.2, 0.3, 0.1)),
    )
    model = AirsimMultirotor(mode=mode, flight=flight)
    x, u, around = crowd(model, 8)
    y = x.copy()
    for _ in range(200):
        x = model.step(x, u, around, DT_S)
    native(model)(y, u, around, DT_S, 200)
    np.testing.assert_allclose(y, x, rtol=1e-9, atol=1e-9)


def test_bits_do_not_depend_on_company() -> None:
    """One vehicle, a tile, a tile and one, a hundred in another order, ten steps at once or one
    by one.
    """
    model = AirsimMultirotor(tilting(), mode="position")
    step = native(model)
    x, u, around = crowd(model, 100)
    together = x.copy()
    step(together, u, around, DT_S, 10)
    assert not np.array_equal(together, x)
    for n in (1, 5, 16, 17):
        part = x[:n].copy()
        step(part, u[:n].copy(), around[:n].copy(), DT_S, 10)
        np.testing.assert_array_equal(part, together[:n])
    order = np.random.default_rng(2).permutation(100)
    shuffled = x[order]
    for _ in range(10):
        step(shuffled, u[order], around[order], DT_S, 1)
    np.testing.assert_array_equal(shuffled, together[order])


@pytest.mark.parametrize("mode", MODES)
def test_a_fleet_takes_the_kernel(mode: Mode) -> None:
    fleet = Fleet(AirsimMultirotor(mode=mode), 3)
    assert fleet.engine == "native"
    fleet.advance(5)
    reference = Fleet(AirsimMultirotor(mode=mode), 3, engine="numpy")
    reference.advance(5)
    np.testing.assert_allclose(fleet.x, reference.x, rtol=1e-12, atol=1e-12)
