"""Moves that follow a remote control, in AirSim's terms; no clock and no threads."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.support.airsim_moves import Aviary, in_air
from vil_bridge.core.errors import ValueRefused
from vil_bridge.interfaces.vehicle_moves import ManualMove, StickPositions, YawGoal
from vil_simulation.source.ipc import SticksOrder, decode_order, encode
from vil_simulation.source.move_limits import check_sticks

MANUAL = ManualMove(ahead_mps=3.0, right_mps=2.0, up_m=2.0, duration_s=2.0)


def flown(sticks: StickPositions | None, yaw_deg: float = 0.0, move: ManualMove = MANUAL) -> Aviary:
    aviary = in_air(yaw_deg=yaw_deg)
    aviary.order(SticksOrder(0, sticks))
    assert aviary.fly(move).reached
    return aviary


@pytest.mark.parametrize("yaw_deg", [0.0, 90.0, -130.0])
def test_the_sticks_move_it_ahead_and_to_the_right_of_its_heading(yaw_deg: float) -> None:
    cos, sin = math.cos(math.radians(yaw_deg)), math.sin(math.radians(yaw_deg))
    ahead = flown(StickPositions(pitch=1.0), yaw_deg).state
    right = flown(StickPositions(roll=1.0), yaw_deg).state
    assert ahead[3] * cos + ahead[4] * sin > 1.0 and abs(ahead[4] * cos - ahead[3] * sin) < 0.1
    assert right[3] * sin - right[4] * cos > 0.7 and abs(right[3] * cos + right[4] * sin) < 0.1


def test_the_throttle_lifts_and_lowers_it() -> None:
    assert flown(StickPositions(throttle=0.5)).state[5] > 0.5
    assert flown(StickPositions(throttle=-0.2)).state[5] < -0.2


def test_the_yaw_stick_turns_it_clockwise() -> None:
    rate = flown(StickPositions(yaw=1.0), move=ManualMove(0.0, 0.0, 0.0, 4.0)).state[12]
    assert rate < -math.radians(1.0)  # 0.01 degrees per second more with each of 200 commands
    held = flown(
        StickPositions(), move=ManualMove(0.0, 0.0, 0.0, 4.0, YawGoal(0.7, by_rate=False))
    ).state
    assert 2.0 * math.atan2(held[8], held[9]) == pytest.approx(0.7, abs=0.05)


def test_without_sticks_it_stays() -> None:
    still = flown(None)
    np.testing.assert_allclose(still.state[3:6], 0.0, atol=0.05)


def test_sticks_are_dropped_after_their_time() -> None:
    aviary = in_air()
    now_ns = aviary.simulation.t_of(aviary.simulation.steps)
    aviary.order(SticksOrder(0, StickPositions(pitch=1.0), now_ns + 100_000_000))
    aviary.start(ManualMove(3.0, 2.0, 2.0, 30.0))
    aviary.advance(0.1)
    assert aviary.state[3] > 0.02
    aviary.advance(20.0)
    assert abs(aviary.state[3]) < 0.05
    aviary.order(SticksOrder(0, StickPositions(pitch=1.0)))
    aviary.advance(2.0)
    assert aviary.state[3] > 1.0


def test_sticks_pass_the_pipe_and_have_ends() -> None:
    order = SticksOrder(3, StickPositions(0.1, 0.2, 0.3, 0.4), 5)
    assert decode_order(encode(order)) == order
    for odd in (math.nan, math.inf, 1.01):
        with pytest.raises(ValueRefused, match="from -1 to 1"):
            check_sticks(StickPositions(yaw=odd))
    check_sticks(None)
