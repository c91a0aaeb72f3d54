"""The bridge and a strict stand-in of PX4, both as processes.

Flights, pauses, and programs that end or stand still.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.sitl import STAND_IN, SitlBridge, counters, sitl_bridge, stand_in, wait_until
from vil_simulation.sitl.options import SitlOptions

pytestmark = pytest.mark.process

INDOORS = SitlOptions(program="px4", indoors=True, speed=50.0)


def flies(bridge: SitlBridge, subject: str = "px4") -> bool:
    return abs(bridge.height(subject) - 1.5) < 0.1


def lies(bridge: SitlBridge, subject: str = "px4") -> bool:
    return bridge.height(subject) < 0.01


def simulated(bridge: SitlBridge, seconds: float) -> None:
    """Wait for simulated time."""
    until = bridge.steps() + 1000 * seconds
    wait_until(lambda: bridge.steps() >= until)


def ahead_s(bridge: SitlBridge) -> float:
    """Return by how much the newest reported steps are ahead of the simulation's clock."""
    t_ns: int = bridge.web.get("/api/v1/simulation").raise_for_status().json()["t_ns"]
    return 1e-9 * float(bridge.vehicle("px4")["t_ns"] - t_ns)


def test_a_box_is_flown_on_motion_capture(tmp_path: Path) -> None:
    parts: dict[str, object] = {
        name: {} for name in ("battery", "airspeed", "range_finder", "optical_flow")
    }
    with sitl_bridge(tmp_path, INDOORS, **parts) as bridge:
        assert "waits for px4 of px4" in bridge.problem(), (
            "time stands until the program has connected"
        )
        with stand_in("px4", bridge.port, "--flight", "box", "--seconds", 34) as program:
            found = counters(program)
    assert found["violation"] == ""
    left_out = found["packets"] - found["unanswered"] - found["answers"]
    assert 0 <= left_out < 50, "only what was under way at its first answer came without waiting"
    assert max(found["corners_m"]) < 0.10, "corners of the box"
    assert found["armed"][-1][1] is False, "it has landed"


def test_pauses_steps_and_the_end_of_the_program(tmp_path: Path) -> None:
    with sitl_bridge(tmp_path, INDOORS) as bridge:
        with stand_in("px4", bridge.port, "--flight", "hover") as program:
            wait_until(lambda: flies(bridge))
            simulated(bridge, 2.0)
            bridge.web.patch("/api/v1/simulation", json={"paused": True}).raise_for_status()
            wait_until(lambda: ahead_s(bridge) > -0.01 and bridge.stands())
            paused_m, paused = bridge.height("px4"), bridge.steps()
            seconds = 0.5 + ahead_s(bridge)  # the vehicles heard of the pause a moment later
            bridge.web.post("/api/v1/simulation/step", json={"seconds": seconds}).raise_for_status()
            wait_until(lambda: bridge.steps() >= paused + 490 and bridge.stands())
            assert bridge.steps() <= paused + 510
            assert abs(bridge.height("px4") - paused_m) < 0.05
            bridge.web.patch("/api/v1/simulation", json={"paused": False}).raise_for_status()
            simulated(bridge, 2.0)
            assert flies(bridge)
            program.kill()
        wait_until(lambda: bridge.link("px4") == "px4 ended")
        wait_until(lambda: lies(bridge))
        simulated(bridge, 1.0)  # the world goes on without it
        with stand_in("px4", bridge.port, "--flight", "hover") as program:
            wait_until(lambda: flies(bridge))
            sticks = {"mode": "rc", "values": [1510, 1520, 1530, 1040, 1900, 1000, 1000, 1000]}
            bridge.web.post("/api/v1/vehicles/px4/command", json=sticks).raise_for_status()
            simulated(bridge, 0.5)
            program.send_signal(signal.SIGTERM)
            found = counters(program)
            assert found["violation"] == ""
            assert found["rc_us"] == sticks["values"], "they have reached PX4"


def test_a_program_that_stands_still_is_silent_and_the_others_fly_on(tmp_path: Path) -> None:
    two = SitlOptions(program="px4", indoors=True, speed=50.0, count=2)
    # Beyond what a loaded computer takes.
    with sitl_bridge(tmp_path, two, timeout_ms=5000) as bridge:
        flight = "--flight", "hover"
        with (
            stand_in("px4", bridge.port, *flight) as first,
            stand_in("px4", bridge.port + 1, "--instance", 1, *flight) as second,
        ):
            wait_until(lambda: flies(bridge, "px4_1") and flies(bridge, "px4_2"))
            first.send_signal(signal.SIGSTOP)
            wait_until(lambda: bridge.link("px4_1") == "px4 silent")
            wait_until(lambda: lies(bridge, "px4_1"))
            simulated(bridge, 2.0)
            assert flies(bridge, "px4_2")
            state = bridge.vehicle("px4_1")
            assert (state["armed"], state["landed"], state["mode"]) == (False, True, "rc")
            first.send_signal(signal.SIGCONT)
            wait_until(lambda: bridge.link("px4_1") == "px4 running")
            wait_until(lambda: flies(bridge, "px4_1"))
            state = bridge.vehicle("px4_1")
            assert (state["armed"], state["landed"]) == (True, False)
            for program in (first, second):
                program.send_signal(signal.SIGTERM)
                assert counters(program)["violation"] == ""


@pytest.mark.long
def test_four_programs_that_start_at_once_are_all_answered(tmp_path: Path) -> None:
    four = SitlOptions(program="px4", indoors=True, speed=50.0, count=4)
    with sitl_bridge(tmp_path, four, timeout_ms=20_000) as bridge, ExitStack() as stack:
        words = "--seconds", "3"
        programs = [
            stack.enter_context(stand_in("px4", bridge.port + i, "--instance", i, *words))
            for i in range(4)
        ]
        found = [counters(program) for program in programs]
    assert [one["violation"] for one in found] == [""] * 4
    assert all(one["answers"] > 200 for one in found), (
        "of 750 samples, up to 500 of which stay unanswered"
    )


def test_a_rotor_that_breaks_in_flight_brings_the_vehicle_down(tmp_path: Path) -> None:
    with (
        sitl_bridge(tmp_path, INDOORS) as bridge,
        stand_in("px4", bridge.port, "--flight", "hover") as program,
    ):
        wait_until(lambda: flies(bridge))
        path = "/api/v1/vehicles/px4/disturbance"
        refused = bridge.web.patch(path, json={"lost_shares": [1.0]})
        assert refused.status_code == 422
        assert "each of the 4 rotors" in refused.text
        bridge.web.patch(path, json={"lost_shares": [0.0, 0.0, 1.0, 0.0]}).raise_for_status()
        wait_until(lambda: bridge.height("px4") < 0.3)
        program.kill()


def test_the_program_is_started_and_started_again(tmp_path: Path) -> None:
    words = [
        *STAND_IN,
        "px4",
        "--flight",
        "hover",
        "--onboard-port",
        "0",
        "--gcs-port",
        "0",
        "--port",
    ]
    noted = (
        "import os, sys; open('pid', 'w').write(str(os.getpid())); os.execv(sys.executable, "
        "sys.argv[1:])"
    )
    pid = tmp_path / "autopilots" / "px4" / "pid"
    with sitl_bridge(
        tmp_path, INDOORS, command=[sys.executable, "-c", noted, *words, "{port}"]
    ) as bridge:
        wait_until(lambda: flies(bridge))
        first = int(pid.read_text(encoding="ascii"))
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: pid.read_text(encoding="ascii") not in ("", str(first)))
        wait_until(lambda: flies(bridge))
        second = int(pid.read_text(encoding="ascii"))
    wait_until(lambda: not Path(f"/proc/{second}").exists(), what="that it ends with the bridge")
