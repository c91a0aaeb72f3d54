"""Betaflight's real program, started by the bridge: it hovers by remote control, and several have a network each."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import pytest

from tests.support import betaflight
from tests.support.common import wait_until
from tests.support.sitl import SitlBridge, sitl_bridge
from vil_bridge.tools.sitl_options import SitlOptions

pytestmark = [
    pytest.mark.process,
    pytest.mark.long,
    pytest.mark.alone,
    pytest.mark.timeout(1800),  # the first time, it is downloaded and compiled
]

_BOOT_S = 7.5
_ATTEMPTS = 5
_TARGET_M = 1.5


class Pilot:
    """Remote control of one vehicle over REST, a hundred times a second at most."""

    def __init__(self, bridge: SitlBridge) -> None:
        self._bridge = bridge
        self._integral = 0.0
        self._t_s = time.monotonic()
        self.heights_m: list[float] = []

    def hold(self, seconds: float, *, armed: bool) -> None:
        """Keep the throttle down."""
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            self._send(1000, armed=armed)
            time.sleep(0.03)

    def climb(self, seconds: float) -> None:
        """Fly to a height of 1.5 m, and hold it."""
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            state = self._bridge.web.get("/api/v1/vehicles/betaflight").raise_for_status().json()
            height_m, climb_mps = state["p_world_m"][2], state["v_world_mps"][2]
            self.heights_m.append(height_m)
            wanted_mps = max(-0.5, min(0.7, _TARGET_M - height_m))
            now_s = time.monotonic()
            dt_s, self._t_s = min(now_s - self._t_s, 0.1), now_s
            self._integral = max(-100.0, min(100.0, self._integral + 40.0 * (wanted_mps - climb_mps) * dt_s))
            throttle = 1515.0 + 120.0 * (wanted_mps - climb_mps) + self._integral
            self._send(round(max(1050.0, min(1800.0, throttle))), armed=True)
            time.sleep(0.03)  # the daemon shares two cores with the program

    def _send(self, throttle_us: int, *, armed: bool) -> None:
        sticks = {"roll_us": 1500, "pitch_us": 1500, "throttle_us": throttle_us, "yaw_us": 1500}
        values = sticks | {"switches_us": [1900 if armed else 1000, 1900, 1000, 1000]}
        command = {"mode": "rc", "values": values}
        self._bridge.web.post("/api/v1/vehicles/betaflight/command", json=command).raise_for_status()


def test_it_hovers_by_remote_control(tmp_path: Path) -> None:
    folder = tmp_path / "autopilots" / "betaflight"
    folder.mkdir(parents=True)
    betaflight.prepare(folder)
    command = [str(betaflight.program())]
    with sitl_bridge(tmp_path, SitlOptions(program="betaflight"), command=command, namespace=True) as bridge:
        pilot = Pilot(bridge)
        for _ in range(_ATTEMPTS):  # a busy computer needs more than one
            pilot.hold(_BOOT_S, armed=False)
            pilot.hold(1.0, armed=True)
            pilot.climb(8.0)
            if pilot.heights_m[-1] > 1.0:
                break
        pilot.heights_m.clear()
        pilot.climb(10.0)
        assert bridge.link("betaflight") == "betaflight running"
    assert abs(statistics.mean(pilot.heights_m) - _TARGET_M) < 0.1
    assert statistics.pstdev(pilot.heights_m) < 0.05
    assert not [p for p in Path("/proc").iterdir() if p.name.isdigit() and _runs_in(p, folder)], (
        "it ended with the bridge"
    )


def test_several_have_a_network_each(tmp_path: Path) -> None:
    command = [str(betaflight.program())]
    with sitl_bridge(tmp_path, SitlOptions(program="betaflight", count=2), command=command) as bridge:
        wait_until(lambda: [bridge.link(name) for name in bridge.subjects] == ["betaflight running"] * 2)


def _runs_in(process: Path, folder: Path) -> bool:
    try:
        return (process / "cwd").readlink() == folder
    except OSError:
        return False
