"""Piloting by hand: keys, the joystick device's events, and what a vehicle is told."""

from __future__ import annotations

import math
import os
import struct
from pathlib import Path
from typing import Any

import pytest

from vil_bridge.core.errors import VilBridgeError
from vil_simulation.race.piloting import Gamepad, Keys, Sticks, values_for


def test_keys_push_fade_stop_and_ask() -> None:
    keys = Keys()
    keys.press(b"wA\x1b[A\x1b")
    assert keys.sticks == Sticks(forward=1.0, left=1.0, up=1.0)
    keys.press(b"[Cm?\xff0")
    assert keys.sticks.turn == -1.0
    assert keys.pop_actions() == ["arm", "reset"]
    assert keys.pop_actions() == []
    keys.fade(0.4)
    assert keys.sticks.forward == pytest.approx(math.exp(-1.0))
    keys.fade(4.0)
    assert keys.sticks == Sticks()
    keys.press(b"s ")
    assert keys.sticks == Sticks()


def event(value: int, kind: int, number: int) -> bytes:
    return struct.pack("<IhBB", 123456, value, kind, number)


@pytest.fixture
def device(tmp_path: Path) -> Any:
    path = tmp_path / "js0"
    os.mkfifo(path)
    writer = os.open(path, os.O_RDWR)
    yield path, writer
    os.close(writer)


def test_the_eight_bytes_of_the_joystick_device(device: tuple[Path, int]) -> None:
    path, writer = device
    pad = Gamepad(path, (1, 0, 4, 3))
    pad.read()  # nothing waits
    os.write(
        writer, event(-32767, 0x82, 1) + event(16384, 2, 0) + event(1000, 2, 3) + event(-9999, 2, 7)
    )
    pad.read()
    assert pad.sticks == Sticks(forward=1.0, left=pytest.approx(-0.5, abs=1e-3), up=0.0, turn=0.0)  # type: ignore[arg-type]
    os.write(writer, event(-32768, 2, 4)[:3])
    pad.read()
    os.write(
        writer,
        event(-32768, 2, 4)[3:]
        + event(1, 1, 0)
        + event(0, 1, 0)
        + event(1, 1, 9)
        + event(1, 0x81, 1),
    )
    pad.read()
    assert pad.sticks.up == pytest.approx(1.0, abs=1e-4)
    assert pad.pop_actions() == ["arm"], (
        "only presses, of known buttons, not the device's first report"
    )
    pad.close()


def test_a_gamepad_that_ends_or_is_absent_is_told(tmp_path: Path) -> None:
    with pytest.raises(VilBridgeError, match="js9: No such file"):
        Gamepad(tmp_path / "js9")
    (tmp_path / "js0").write_bytes(event(1, 2, 1))
    pad = Gamepad(tmp_path / "js0")
    pad.read()
    with pytest.raises(VilBridgeError, match="the gamepad is gone"):
        pad.read()
    pad.close()


def state(*modes: tuple[str, tuple[str, ...]]) -> dict[str, Any]:
    half = math.pi / 4
    fields = {mode: [{"name": name} for name in names] for mode, names in modes}
    return {
        "model": "m",
        "q_world_body": [0.0, 0.0, math.sin(half), math.cos(half)],
        "modes": fields,
    }


def test_hands_fly_along_the_vehicles_heading() -> None:
    sticks = Sticks(forward=1.0, left=0.5, up=-1.0, turn=0.5)
    told = values_for(state(("velocity", ("v_world_mps", "yaw_radps"))), sticks, 2.0, 1.0)
    assert told["mode"] == "velocity"
    assert told["values"]["v_world_mps"] == pytest.approx([-1.0, 2.0, -2.0])
    assert told["values"]["yaw_radps"] == 0.5
    names = ("v_world_mps", "yaw_rad", "yaw_rate_radps", "yaw_by_rate")
    told = values_for(state(("velocity", names)), sticks, 2.0, 1.0)
    assert {k: v for k, v in told["values"].items() if k != "v_world_mps"} == {
        "yaw_rad": 0.0,
        "yaw_rate_radps": 0.5,
        "yaw_by_rate": 1.0,
    }
    told = values_for(state(("speed", ("speed_mps", "yaw_rate_radps"))), sticks, 2.0, 1.0)
    assert told == {"mode": "speed", "values": {"speed_mps": 2.0, "yaw_rate_radps": 1.0}}
    with pytest.raises(VilBridgeError, match="neither velocity nor speed"):
        values_for(state(("lift", ("lift_mps2",))), sticks, 2.0, 1.0)
