"""align and room align on real sockets: an emulated room, a hand that follows the prompts."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from tests.support.align import Carried, Led, Moves
from tests.support.events import until
from tests.support.programs import VIL_BRIDGE, Program
from vil_adapters.optitrack.config import MotiveEmulatorConfig
from vil_adapters.optitrack.emulator import MotiveEmulator
from vil_bridge.cli.main import main
from vil_bridge.config.load import load
from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.geometry import Transform, q_conj, q_from_euler_zyx, q_log, q_mul
from vil_bridge.core.room_registration import place_by_points
from vil_bridge.interfaces.ports import MocapMotion
from vil_bridge.registry import resolve
from vil_bridge.runtime.exit_codes import Exit
from vil_bridge.setup.align import guide
from vil_bridge.setup.align.guide import lead_moves, lead_spots, record_shaking, record_wand
from vil_bridge.setup.align.segmentation import CalibrationError

T_BODY_MARKERS = Transform.of((0.03, -0.02, 0.05), q_from_euler_zyx(0.5, 0.1, -0.2))
MS = 1_000_000


def motive(
    motion: MocapMotion, *, up_axis: str = "y", epoch_ns: int | None = None
) -> MotiveEmulator:
    """A quick and exact Motive on free ports."""
    config = MotiveEmulatorConfig.model_validate(
        {
            "command_port": 0,
            "data_port": 0,
            "rate_hz": 100.0,
            "up_axis": up_axis,
            "latency_jitter_ms": 0.0,
        }
    )
    return MotiveEmulator(config, motion, now_ns() if epoch_ns is None else epoch_ns)


def write(folder: Path, sections: dict[str, Any]) -> Path:
    path = folder / "lab.yaml"
    path.write_text(yaml.safe_dump({"version": 1, **sections}))
    return path


def read(path: Path) -> BridgeConfig:
    return load(path, resolve=resolve)


def natnet(port: int, room: str = "lab", **keys: object) -> dict[str, object]:
    return {"type": "optitrack", "room": room, "command_port": port, **keys}


def vehicle(source: str, subject: str = "drone", **keys: object) -> dict[str, object]:
    return {"kind": "vehicle", "source": source, "subject": subject, **keys}


async def aligned(folder: Path) -> dict[str, Any]:
    """What `align` finds in a room that is read with the wrong up axis."""
    moves = Moves(T_BODY_MARKERS)
    led = Led(moves, last=moves.tilt, slower=2)
    async with motive(led, up_axis="z") as emulator:
        sections = {
            "rooms": {"lab": {}},
            "sources": {"motive": natnet(emulator.command_port, up_axis="y")},
            "actors": {"drone": vehicle("motive")},
        }
        words = (write(folder, sections), "drone", "--json", "--timeout", "60")
        with Program(*VIL_BRIDGE, "align", *words, split=True, env={"COLUMNS": "200"}) as child:
            await child.until(
                lambda: "\n1 of 5: move it forward" in f"\n{child.error_text()}", "the first prompt"
            )
            led.begin()
            await until(lambda: child.poll() is not None, 90.0)
            assert child.returncode == Exit.OK, child.error_text()
    prompts = [line[:6] for line in child.error_text().splitlines() if line[:1].isdigit()]
    # A step that a busy machine has missed is asked for again.
    assert list(dict.fromkeys(prompts)) == [f"{i} of 5" for i in range(1, 6)]
    answer: dict[str, Any] = json.loads(child.text())
    return answer


@pytest.mark.process
@pytest.mark.long
async def test_a_body_led_by_the_prompts_is_understood(tmp_path: Path) -> None:
    answer = await aligned(tmp_path)
    assert answer["axes"] == {"forward": "+x", "left": "+z", "up": "-y"}
    paste = answer["paste"]
    assert paste["sources"] == {"motive": {"up_axis": "z"}}
    assert "rooms" not in paste
    markers = paste["actors"]["drone"]["T_body_markers"]
    np.testing.assert_allclose(markers["p_m"], T_BODY_MARKERS.p_m, atol=0.012)
    q = q_from_euler_zyx(*np.radians(markers["ypr_deg"]))
    assert np.degrees(np.linalg.norm(q_log(q_mul(q_conj(q), T_BODY_MARKERS.q_xyzw)))) < 8
    after = {name: columns["after"] for name, columns in answer["view"].items()}
    assert after["move up"][2] == pytest.approx(0.5, abs=0.05)
    assert after["move forward"][0] == pytest.approx(0.55, abs=0.05)
    assert after["nose"][0] > 0.95


T_WORLD_B = Transform.of((4.0, -1.0, 0.1), q_from_euler_zyx(np.radians(120.0), 0.0, 0.0))
MARKS = np.array([[0.0, 0.0, 0.1], [1.0, 0.2, 0.1]])


@pytest.mark.wire
async def test_rooms_are_placed_by_marks_and_by_a_wand(tmp_path: Path) -> None:
    in_b = T_WORLD_B.inverse().apply(MARKS)
    marks = Led(Carried(MARKS, 1.8, 0.5)), Led(Carried(in_b, 1.8, 0.5))
    waves = Carried(np.tile(MARKS, (20, 1)), 0.1, 1.0), Carried(np.tile(in_b, (20, 1)), 0.1, 1.0)
    begun_ns = now_ns()
    a, b, c, d = (motive(motion, epoch_ns=begun_ns) for motion in (*marks, *waves))
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        if text.endswith("0 and 0 of 2 seen"):
            for led in marks:
                led.begin()

    async with a, b, c, d:
        sections = {
            "rooms": {"a": {}, "b": {}},
            "sources": {
                f"s{i}": natnet(e.command_port, room)
                for i, (e, room) in enumerate(zip((a, b, c, d), "abab", strict=True))
            },
            "actors": {f"w{i}": vehicle(f"s{i}", "wand") for i in range(4)},
        }
        config = read(write(tmp_path, sections))
        placed, waved = await asyncio.gather(
            lead_spots(config, ("w0", "w1"), 2, say, 30.0),
            record_wand(config, ("w2", "w3"), say, 2.5),
        )
    assert any("marks 1 to 2" in line for line in said) and any(
        "carry the wand" in line for line in said
    )
    for name, (p_a, p_b), tolerance_m in (("marks", placed, 0.002), ("wand", waved, 0.01)):
        placement = place_by_points(p_a, p_b)
        error = T_WORLD_B.inverse() @ placement.T_world_room
        assert np.linalg.norm(placement.T_world_room.p_m - T_WORLD_B.p_m) < 5 * tolerance_m, name
        assert np.degrees(np.linalg.norm(q_log(error.q_xyzw))) < 1.0, name
        assert placement.rms_m < tolerance_m, name


@pytest.mark.wire
async def test_a_body_that_never_rests_is_said_to_move(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guide, "_MOVING_NS", NS_PER_S // 2)
    said: list[str] = []
    async with motive(Carried(np.tile(MARKS, (200, 1)), 0.0, 0.3)) as emulator:
        sections = {
            "rooms": {"lab": {}},
            "sources": {"motive": natnet(emulator.command_port)},
            "actors": {"drone": vehicle("motive", "wand")},
        }
        with pytest.raises(CalibrationError, match="gave up"):
            await lead_moves(read(write(tmp_path, sections)), "drone", said.append, 1.5)
    assert said[-1].startswith("drone is moving: it has to be still for a second")
    assert "vil-bridge lab --carried" in said[-1]


@pytest.mark.wire
async def test_calibrate_says_which_stream_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guide, "_TROUBLE_NS", NS_PER_S // 2)
    said: list[str] = []
    async with motive(Moves()) as emulator:
        sections = {
            "rooms": {"lab": {}},
            "sources": {
                "motive": natnet(emulator.command_port),
                "autopilot": {"type": "mavlink-imu", "device": str(tmp_path / "absent")},
            },
            "actors": {"drone": vehicle("motive", imu="autopilot")},
        }
        with pytest.raises(CalibrationError) as refusal:
            async with asyncio.timeout(60.0):
                await record_shaking(
                    read(write(tmp_path, sections)), "drone", "autopilot", said.append, -4.0
                )
    assert any(
        line.startswith("still missing: no inertial samples: source autopilot is ") for line in said
    ), said
    assert "no inertial samples" in str(refusal.value)


@pytest.mark.wire
async def test_a_body_that_nobody_sees_is_refused_with_the_reason(tmp_path: Path) -> None:
    async with motive(Moves()) as emulator:
        sections = {
            "rooms": {"a": {}, "b": {}},
            "sources": {"motive": natnet(emulator.command_port, "a"), "dead": natnet(9, "b")},
            "actors": {"drone": vehicle("motive", "Drone"), "other": vehicle("dead", "other")},
        }
        path = write(tmp_path, sections)
        with pytest.raises(CalibrationError) as refusal:
            await lead_spots(read(path), ("drone", "other"), 2, lambda _: None, 3.5)
    assert "drone wants 'Drone'; the stream of motive has drone" in str(refusal.value)
    assert "source dead is waiting: no answer from 127.0.0.1:9" in str(refusal.value)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("align", "LAB", "dron"),
            "no actor is named 'dron'; known: drone, human (did you mean 'drone'?)",
        ),
        (("align", "LAB", "human"), "'human' is a skeleton"),
        (("calibrate", "LAB", "drone"), "actor 'drone' has no `imu:`"),
        (("room", "align", "LAB", "lab", "hall"), "no room is named 'hall'"),
        (("room", "align", "LAB", "lab", "lab"), "'lab' cannot be placed against itself"),
        (
            ("room", "align", "LAB", "lab", "empty"),
            "room 'empty' needs one rigid body to be placed with, it has: none",
        ),
    ],
)
def test_what_cannot_be_asked_is_exit_2(
    tmp_path: Path,
    words: tuple[str, ...],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    sections = {
        "rooms": {"lab": {}, "empty": {}},
        "sources": {"motive": natnet(9)},
        "actors": {
            "drone": vehicle("motive"),
            "human": {"kind": "human", "source": "motive", "subject": "Actor"},
        },
    }
    path = write(tmp_path, sections)
    monkeypatch.setattr(
        sys, "argv", ["vil-bridge", *(str(path) if word == "LAB" else word for word in words)]
    )
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == Exit.CONFIG
    assert message in capsys.readouterr().err
