"""AprilTags in the scene, found in the streamed pictures by the reference detector, give the
camera's pose back.

Both protocols of the Unity programs, spoken by the embedded renderer's process; a camera that
moves, single and as a stereo pair, as rendered and compensated. The pose is compared with the one
in the picture's metadata.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from tests.support.apriltag_room import camera_pose, detect, difference, write_scene
from tests.support.bridge_rig import build, running
from tests.support.common import needs_gl
from tests.support.embedded import rotation
from tests.support.programs import VIL_BRIDGE, Program
from vil_bridge.client import Frame, Receiver
from vil_bridge.core.geometry import Transform, q_from_matrix
from vil_bridge.core.types import FloatArray
from vil_bridge.daemon.bridge import Bridge

pytestmark = [pytest.mark.process, pytest.mark.gl]

BASELINE_M: Final = 0.32
PICTURES: Final = 6
NEAR_MM: Final = 5.0
NEAR_DEG: Final = 0.2
CONFIG: Final = """
version: 1
rooms: {{room: {{}}}}
sources: {{track: {{type: motion-file, path: "{track}", subject: drone, room: room}}}}
actors: {{drone: {{kind: vehicle, source: track, subject: drone}}}}
renderers: {{tags: {{type: {protocol}, pose_port: 0, image_port: 0}}}}
cameras:
  front:
    actor: drone
    renderer: tags
    T_body_camera: {{p_m: [0.1, 0.02, 0.03], ypr_deg: [2, -3, 4]}}
    modalities: [rgb, depth]
    latency_compensation: depth
    rate_hz: 8
  pair:
    actor: drone
    renderer: tags
    T_body_camera: {{p_m: [0.1, 0.16, 0.0], ypr_deg: [0, 5, 0]}}
    stereo_baseline_m: {baseline_m}
    latency_compensation: none
    rate_hz: 8
stream: {{bind: "tcp://127.0.0.1:0"}}
http: {{port: 0}}
realtime: {{fifo_priority: 0}}
"""
PROTOCOLS: Final = {
    "flightgoggles": (),
    "flightmare": ("--protocol", "flightmare"),
}


def write_track(folder: Path) -> Path:
    """A gentle flight before the tags, TUM's columns at 100 Hz.

    0.25 m/s and 8 degrees a second at most.

    A busy machine shows a picture 0.4 s after it was asked for: then the warp reaches over 10 cm.
    """
    lines = []
    for t_s in np.arange(0.0, 40.0, 0.01):
        phase = 2 * np.pi * t_s / 10.0
        p = 0.3 * np.sin(phase), 0.3 * np.cos(phase), 1.4 + 0.1 * np.sin(2 * phase)
        R = rotation(6 * np.sin(phase), 4 * np.cos(phase), 8 * np.sin(phase))
        q = q_from_matrix(R)
        lines.append(" ".join(f"{value:.9f}" for value in (t_s, *p, *q)))
    path = folder / "track.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


@contextmanager
def renderer(scene: Path, ports: tuple[int, int], options: tuple[str, ...]) -> Iterator[None]:
    """The embedded renderer's process; ends well."""
    words = ("--scene", scene, "--input-port", ports[0], "--output-port", ports[1], *options)
    with Program(*VIL_BRIDGE, "renderer", *words) as child:
        yield
        assert child.end() == 0


@asynccontextmanager
async def flying(folder: Path, protocol: str) -> AsyncIterator[Bridge]:
    """A bridge whose renderer draws the room with the tags."""
    bridge = build(
        CONFIG.format(track=write_track(folder), protocol=protocol, baseline_m=BASELINE_M)
    )
    client: Any = bridge.context.pool.renderers["tags"]
    with renderer(write_scene(folder), (client.pose_port, client.image_port), PROTOCOLS[protocol]):
        async with running(bridge):
            yield bridge


def collect(endpoint: str, camera: str, variant: str) -> list[Frame]:
    """Some pictures of a stream, one a moment, not the very first ones.

    The track has to be known.
    """
    kept: list[Frame] = []
    with Receiver(endpoint, camera, variant=variant, encoding="raw", timeout_s=5.0) as receiver:
        for count, frame in enumerate(receiver):
            if count >= 2:
                kept.append(frame)
            if len(kept) == PICTURES:
                return kept
    raise AssertionError(receiver.problem)


def told(frame: Frame) -> Transform:
    pose = frame.pose_display
    assert pose is not None
    return Transform(pose.p_m, pose.q_xyzw)


def check_poses(
    frames: list[Frame], seen_tags: list[dict[int, FloatArray]]
) -> dict[int, Transform]:
    """Every picture's tags say the pose that its metadata says.

    Those poses by the instant shown.
    """
    found: dict[int, Transform] = {}
    apart: list[tuple[float, float]] = []
    for frame, tags in zip(frames, seen_tags, strict=True):
        assert frame.K is not None
        seen = camera_pose(tags, frame.K)
        apart.append(difference(seen, told(frame)))
        found[frame.t_bridge_ns] = seen
    worst_mm, worst_deg = np.max(apart, axis=0)
    print(
        f"\n{frames[0].metadata['camera']} {frames[0].metadata['variant']}: "
        f"{worst_mm:.2f} mm, {worst_deg:.3f} deg"
    )
    assert worst_mm <= NEAR_MM and worst_deg <= NEAR_DEG
    return found


@pytest.mark.long
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_tags_give_back_the_pose_in_the_metadata(protocol: str, tmp_path: Path) -> None:
    needs_gl()
    pytest.importorskip("pupil_apriltags")
    async with flying(tmp_path, protocol) as bridge:
        streams = [
            ("front", "raw"),
            ("front", "compensated"),
            ("pair", "raw"),
            ("pair_right", "raw"),
        ]
        endpoint = bridge.context.hub.endpoint
        collected = await asyncio.gather(
            *(asyncio.to_thread(collect, endpoint, *stream) for stream in streams)
        )
    found = detect([frame.image for frames in collected for frame in frames], tmp_path)
    raw_tags, compensated_tags, left_tags, right_tags = (
        found[i : i + PICTURES] for i in range(0, 4 * PICTURES, PICTURES)
    )
    raw, compensated, left, right = collected
    positions = np.array([told(frame).p_m for frame in raw])
    assert np.ptp(positions, axis=0).max() > 0.05, "the camera moves"
    check_poses(raw, raw_tags)
    assert {frame.compensation["method"] for frame in compensated} == {"reproject"}
    check_poses(compensated, compensated_tags)
    poses_left, poses_right = check_poses(left, left_tags), check_poses(right, right_tags)
    common = sorted(poses_left.keys() & poses_right.keys())
    assert len(common) >= PICTURES // 2, "both eyes show the same instants"
    for t_ns in common:
        offset_m = (poses_left[t_ns].inverse() @ poses_right[t_ns]).p_m
        assert np.abs(offset_m - (BASELINE_M, 0.0, 0.0)).max() <= 2 * NEAR_MM * 1e-3
