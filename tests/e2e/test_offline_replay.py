"""A recording runs through the pipeline without a clock.

The same files each time, and the ones that are right.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from pathlib import Path
from typing import Any

import cv2
import msgspec
import numpy as np
import pytest

from tests.support.common import needs_gl
from tests.support.offline import (
    CONFIG,
    LATENCY_NS,
    MS,
    PERIOD_NS,
    T0_NS,
    flight,
    pose_at,
    room_file,
    write_recording,
)
from vil_bridge.core.bridge_time import bridge_clock, machine_ns
from vil_bridge.core.errors import ConfigError, RecordingError
from vil_bridge.core.geometry import T_FLU_OPTICAL, q_conj, q_log, q_mul
from vil_bridge.core.types import (
    CameraModel,
    ClockExchange,
    ImuSample,
    Modality,
    SourceReset,
    Stamps,
    View,
    WorldSnapshot,
)
from vil_bridge.monitoring.frame_records import FrameRow, read_ledger
from vil_bridge.offline.files import SUMS
from vil_bridge.offline.replay.replay import ReplaySummary, replay_offline
from vil_renderer.offline_renderer import open_renderer


def files(out: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(out)): path.read_bytes()
        for path in sorted(out.rglob("*"))
        if path.is_file()
    }


def headers(out: Path, camera: str) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for line in (out / "cameras" / camera / "pictures.jsonl").read_text().splitlines()
    ]


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ReplaySummary, ReplaySummary]:
    """Folder with a recording and two replays of it."""
    needs_gl()
    folder = tmp_path_factory.mktemp("replays")
    recording, room = write_recording(folder / "flight.mcap"), str(room_file(folder))
    shares: list[float] = []
    one = replay_offline(recording, folder / "one", scene=room, on_progress=shares.append)
    assert shares[-1] == 1.0
    assert bridge_clock().now_ns() == pytest.approx(machine_ns(), abs=1e9), (
        "bridge time is the machine's again"
    )
    return folder, one, replay_offline(recording, folder / "two", scene=room)


@pytest.mark.gl
def test_two_runs_give_the_same_files(twice: tuple[Path, ReplaySummary, ReplaySummary]) -> None:
    folder, one, two = twice
    first = files(folder / "one")
    assert first == files(folder / "two")
    sums = first.pop(SUMS)
    assert one.sha256 == two.sha256 == hashlib.sha256(sums).hexdigest()
    expected = [
        f"{hashlib.sha256(data).hexdigest()}  {name}" for name, data in sorted(first.items())
    ]
    assert sums.decode().splitlines() == expected
    assert one.events == len(list(flight())) and one.delay_ms == 27.0
    assert one.pictures == {
        "front": 2 * len(list((folder / "one/cameras/front/gray").iterdir())),
        "still": 19,
    }


@pytest.mark.gl
def test_the_pictures_are_those_of_the_poses_that_their_headers_tell(
    twice: tuple[Path, ReplaySummary, ReplaySummary],
) -> None:
    folder, _, _ = twice
    told = headers(folder / "one", "front")
    gray = [h for h in told if h["modality"] == "gray"]
    stamps = gray[0]["stamps_ns"]
    assert (
        stamps["warp"] - stamps["request"] == 27 * MS
        and stamps["request"] - T0_NS - LATENCY_NS < 40 * MS
    )
    gaps = {b["frame_id"] - a["frame_id"] for a, b in itertools.pairwise(gray)}
    assert min(gaps) == 40 * MS, "25 pictures a second"
    assert max(gaps) > 150 * MS, "none while the drone is lost"
    late = gray[-1]
    shown_s = 1e-9 * (late["t_display_ns"] - T0_NS)
    truth = pose_at(shown_s) @ T_FLU_OPTICAL
    assert np.linalg.norm(truth.p_m - late["pose_display"]["p_m"]) < 2e-3, (
        "predicted to when it is used"
    )
    with open_renderer(str(folder / "room.yaml")) as renderer:
        camera = CameraModel("front", 64, 48, math.radians(70.0))
        (seen,) = renderer.render([View(camera, Modality.GRAY, truth, 0)], WorldSnapshot(0, ()))
    kept: Any = cv2.imread(str(folder / "one/cameras/front" / late["file"]), cv2.IMREAD_UNCHANGED)
    off = np.abs(kept.astype(int) - seen.pixels.astype(int))
    assert np.median(off) <= 3 and np.percentile(off, 90) < 25
    depth = next(h for h in told if h["modality"] == "depth")
    far: Any = cv2.imread(str(folder / "one/cameras/front" / depth["file"]), cv2.IMREAD_UNCHANGED)
    assert far.dtype == np.uint16 and far.shape == (48, 64)


@pytest.mark.gl
def test_trajectories_states_and_ledger(twice: tuple[Path, ReplaySummary, ReplaySummary]) -> None:
    folder, one, _ = twice
    rows = np.loadtxt(folder / "one/trajectories/drone.txt")
    # Three exchanges have told the room's clock by then.
    late = rows[rows[:, 0] > 1e-9 * T0_NS + 0.895]
    assert len(late) == 60
    for row in late[::7]:
        pose = pose_at(row[0] - 1e-9 * T0_NS)
        assert np.linalg.norm(pose.p_m - row[1:4]) < 5e-4
        assert np.linalg.norm(q_log(q_mul(q_conj(pose.q_xyzw), row[4:8]))) < 5e-4
    states = [line.split(",") for line in (folder / "one/states.csv").read_text().splitlines()[1:]]
    assert [state for _, _, state in states] == ["lost", "tracked", "coasting", "stale", "tracked"]
    blind_ns = T0_NS + 490 * MS + LATENCY_NS  # the last frame with the drone
    times = dict(zip(("coasting", "stale"), (int(t) for t, _, _ in states[2:4]), strict=True))
    assert 0 <= times["coasting"] - blind_ns - PERIOD_NS <= 10 * MS, (
        "told untracked by the next frame"
    )
    assert 0 <= times["stale"] - blind_ns - 250 * MS <= 10 * MS
    ledgers = {
        ledger.head.camera: ledger
        for ledger in read_ledger((folder / "one/ledger.jsonl").read_bytes().splitlines())
    }
    assert {name: len(ledger.rows) for name, ledger in ledgers.items()} == {
        "front": one.pictures["front"] // 2,
        "still": 19,
    }
    assert (
        ledgers["front"].head.dropped == one.dropped["front"]
        and one.dropped["front"]["tracking_lost"] > 2
    )


@pytest.mark.gl
def test_ids_that_only_the_warp_needs_are_not_written(tmp_path: Path) -> None:
    needs_gl()
    moving = "latency_compensation: depth, moving_actors: true, modalities: [gray, depth]"
    recording = write_recording(
        tmp_path / "flight.mcap", CONFIG.replace("modalities: [gray, depth]", moving)
    )
    done = replay_offline(
        recording, tmp_path / "out", scene=str(room_file(tmp_path)), cameras=["front"]
    )
    assert done.pictures["front"] > 10
    assert {h["modality"] for h in headers(tmp_path / "out", "front")} == {"gray", "depth"}


def test_without_a_scene_there_are_poses_only(tmp_path: Path) -> None:
    recording = write_recording(tmp_path / "flight.mcap")
    done = replay_offline(recording, tmp_path / "out")
    assert done.pictures == {}
    assert files(tmp_path / "out").keys() == {
        *(
            "SHA256SUMS",
            "config.yaml",
            "ledger.jsonl",
            "replay.json",
            "states.csv",
            "trajectories/drone.txt",
        )
    }
    with pytest.raises(ConfigError, match="is not empty"):
        replay_offline(recording, tmp_path / "out")
    with pytest.raises(
        ConfigError, match="no camera is named rear; the recording has front, still"
    ):
        replay_offline(recording, tmp_path / "again", scene="hall", cameras=["rear"])


def test_the_recorded_frames_tell_the_delay(tmp_path: Path) -> None:
    rows = [
        FrameRow(1, "raw", 0, "tracked", {}, Stamps(request=0, warp=delay_ms * MS))
        for delay_ms in (90, 40, 41)
    ]
    ledger = [("front", msgspec.json.encode(row)) for row in rows]
    recording = write_recording(tmp_path / "flight.mcap", ledger=ledger)
    assert replay_offline(recording, tmp_path / "out").delay_ms == 41.0
    assert replay_offline(recording, tmp_path / "told", delay_ms=12.5).delay_ms == 12.5


def test_what_cannot_be_replayed_is_told(tmp_path: Path) -> None:
    empty = write_recording(tmp_path / "empty.mcap", events=[SourceReset("mocap", "it began")])
    with pytest.raises(RecordingError, match="holds no event"):
        replay_offline(empty, tmp_path / "a")
    hours = [ClockExchange("mocap", t_ns, t_ns, t_ns) for t_ns in (T0_NS, T0_NS + 2 * 3600 * 10**9)]
    with pytest.raises(RecordingError, match="hours later than the file was written"):
        replay_offline(write_recording(tmp_path / "torn.mcap", events=hours), tmp_path / "b")
    back = [ImuSample("imu", None, T0_NS + t_ns, np.zeros(3), np.ones(3)) for t_ns in (5 * MS, 0)]
    done = replay_offline(write_recording(tmp_path / "back.mcap", events=back), tmp_path / "c")
    assert (done.events, done.recorded_s) == (2, 0.0)
    with pytest.raises(ConfigError, match=r"its configuration\):3:1: rooms: "):
        replay_offline(
            write_recording(tmp_path / "odd.mcap", "\nversion: 1\nrooms: 3\n"), tmp_path / "d"
        )
