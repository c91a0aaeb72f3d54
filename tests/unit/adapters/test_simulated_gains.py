"""Gains of AirSim's flight controller that are set in flight; no clock and no threads."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.airsim_moves import Aviary, in_air
from vil_bridge.core.errors import ValueRefused
from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.vehicle_commands import GainsCommand
from vil_bridge.interfaces.vehicle_moves import Loop, LoopGains, Point, TurnRateMove, VelocityMove
from vil_simulation.source.command_handler import CommandHandler
from vil_simulation.source.config import SimulatedConfig
from vil_simulation.source.ipc import GainsOrder, Order, Reset, decode_order, encode
from vil_simulation.vehicles.airsim.simple_flight import LOOPS, MODES, SimpleFlight

EAST = VelocityMove((2.0, 0.0, 0.0), 3.0)
SLUGGISH = LoopGains((0.02, 0.02, 2.0), (0.0, 0.0, 2.0))


def speed_after(aviary: Aviary, seconds: float) -> float:
    aviary.advance(seconds)
    return float(aviary.state[3])


def flown(aviary: Aviary) -> FloatArray:
    return aviary.fly(EAST).track


def test_default_gains_change_no_bit() -> None:
    plain, same = in_air(), in_air()
    for loop in LOOPS:
        same.order(GainsOrder(0, loop, LoopGains((9.0, 9.0, 9.0))))
        same.order(GainsOrder(0, loop, getattr(SimpleFlight(), loop)))
    np.testing.assert_array_equal(flown(plain), flown(same))


def test_gains_act_at_once_on_the_running_move_and_survive_a_reset() -> None:
    quick, slow = in_air(), in_air()
    for aviary in (quick, slow):
        aviary.start(EAST)
    slow.order(GainsOrder(0, "velocity", SLUGGISH))
    assert 0.0 < speed_after(slow, 1.0) < 0.3 * speed_after(quick, 1.0)
    assert slow.simulation.groups[0].moves.runs(0)
    slow.order(Reset(0))
    slow.advance(1.0)
    slow.start(EAST)
    assert 0.0 < speed_after(slow, 1.0) < 0.3 * float(quick.state[3])


@pytest.mark.parametrize(
    ("loop", "gains"),
    [
        ("velocity", LoopGains((0.2, 0.2, 2.0), (0.05, 0.05, 2.0), (0.01, 0.01, 0.0))),
        ("rate", LoopGains((0.25, 0.25, 0.25), (0.1, 0.1, 0.1), (1e-3, 1e-3, 1e-3))),
        ("angle", LoopGains((2.0, 2.5, 1.0), (0.1, 0.1, 0.1))),
        ("position", LoopGains((0.2, 0.3, 0.4), (0.01, 0.0, 0.0), (0.05, 0.05, 0.05))),
    ],
)
def test_a_vehicle_flies_with_integral_and_derivative_gains(loop: Loop, gains: LoopGains) -> None:
    aviary = in_air()
    aviary.order(GainsOrder(0, loop, gains))
    assert aviary.fly(EAST).reached
    assert aviary.fly(TurnRateMove(0.5, 1.0)).reached
    aviary.advance(2.0)
    assert np.isfinite(aviary.state).all() and abs(aviary.state[2] - 2.0) < 1.0


def test_a_loop_without_a_gain_does_not_act() -> None:
    """Roll and pitch are not controlled by the velocity then.

    The vehicle stays level and only turns.
    """
    aviary = in_air()
    aviary.order(GainsOrder(0, "velocity", LoopGains((0.0, 0.0, 2.0), (0.0, 0.0, 2.0))))
    aviary.fly(EAST)
    np.testing.assert_allclose(aviary.state[[0, 3]], 0.0, atol=1e-6)


def test_gains_are_those_of_one_vehicle() -> None:
    """Its fleets are removed when its gains change again."""
    aviary = in_air(count=2, spacing_m=20.0)
    for number in range(50):
        aviary.order(GainsOrder(1, "rate", LoopGains((0.2, 0.2, 0.2 + 1e-3 * number))))
        aviary.fly(VelocityMove((0.0, 0.0, 0.0), 0.04))
    group = aviary.simulation.groups[0]
    assert len(group.fleets._fleets) <= 2 * len(MODES)
    aviary.order(GainsOrder(1, "velocity", SLUGGISH))
    aviary.start(EAST)
    assert speed_after(aviary, 1.0) > 1.0
    assert group.fleets.flight_of(0) == SimpleFlight() != group.fleets.flight_of(1)


def handled(model: str = "airsim") -> tuple[CommandHandler, list[Order]]:
    orders: list[Order] = []

    def send(order: Order) -> bool:
        orders.append(decode_order(encode(order)))
        return True

    config = SimulatedConfig.model_validate(
        {"type": "simulated", "vehicles": {"drone": {"model": model}}}
    )
    handler = CommandHandler("source", config, send)
    handler._states = np.zeros((1, 13))
    return handler, orders


def test_gains_pass_the_pipe() -> None:
    handler, orders = handled()
    handler.handle("drone", GainsCommand("angle", LoopGains((1.0, 2.0, 3.0), (0.0, 0.0, 0.1))))
    assert orders == [GainsOrder(0, "angle", LoopGains((1.0, 2.0, 3.0), (0.0, 0.0, 0.1)))]


@pytest.mark.parametrize("odd", [(np.nan, 0.0, 0.0), (0.0, np.inf, 0.0), (0.0, 0.0, 2e6)])
def test_absurd_gains_are_refused(odd: Point) -> None:
    handler, orders = handled()
    for gains in (
        LoopGains(odd),
        LoopGains((1.0, 1.0, 1.0), odd),
        LoopGains((1.0, 1.0, 1.0), d=odd),
    ):
        with pytest.raises(ValueRefused, match=r"must be from -1e\+06 to 1e\+06, not"):
            handler.handle("drone", GainsCommand("rate", gains))
    assert not orders


def test_another_flight_controller_has_no_gains() -> None:
    handler, _ = handled("kinematic")
    with pytest.raises(ValueRefused, match="drone has no gains: model 'kinematic'"):
        handler.handle("drone", GainsCommand("rate", LoopGains((1.0, 1.0, 1.0))))
