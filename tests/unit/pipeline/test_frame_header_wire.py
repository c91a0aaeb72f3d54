"""Bytes of frame headers on the wire: keys, their order and their values, against a stored table.

``python -m tests.unit.pipeline.test_frame_header_wire`` writes the table again; do so only when the
format changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from vil_bridge.core.bridge_time import bridge_clock
from vil_bridge.core.clock import now_ns
from vil_bridge.core.frame_header import FrameHeader
from vil_bridge.core.geometry import Transform, q_exp
from vil_bridge.core.types import (
    ActorKind,
    CameraModel,
    ImageArray,
    ImuSample,
    Landmark,
    Modality,
    RenderedFrame,
    RenderedImage,
    RenderRequest,
    SourceFrame,
    View,
    WorldSnapshot,
)
from vil_bridge.monitoring.rate_meter import Meter
from vil_bridge.outputs.stream.encoded_picture import EncodedPicture
from vil_bridge.pipeline.camera import BridgeCamera
from vil_bridge.pipeline.camera_relay import CameraRelay
from vil_bridge.pipeline.frame_ledger import FrameLedger
from vil_bridge.protocols.image_codecs import EncodingOptions
from vil_bridge.world.actors import Actor, TrackingLimits
from vil_bridge.world.world import World

MS = 1_000_000
START_NS = 5_000_000_000
TABLE = Path(__file__).with_name("frame_headers.jsonl")
T_BODY_CAMERA = Transform.of((0.1, 0.02, 0.05), q_exp(np.array([0.0, -0.1, 0.2])).tolist())
MARKS = (Landmark("gate-1", 20.0, 15.0, 3.0), Landmark("hidden", 500.0, 15.0, 3.0))
_FLOAT = re.compile(rb"-?\d+\.\d+(?:e[-+]?\d+)?")
_ESTIMATED_NS = re.compile(rb'(?:(?<="imu_age_ns":)|(?<="imu_late_ns":))-?\d+')


class _Reader:
    def __init__(self) -> None:
        self.frames: list[tuple[FrameHeader, ImageArray]] = []

    def wanted(self, modality: str, variant: str) -> bool:
        return True

    def offer(self, header: FrameHeader, pixels: ImageArray) -> None:
        self.frames.append((header, pixels))

    def flush(self) -> None: ...

    def close(self) -> None: ...


def _world(imu: bool) -> World:
    """A vehicle seen at 100 Hz for the last 300 ms."""
    limits = TrackingLimits(30 * MS, 900 * MS, 1000 * MS, max_speed_mps=1e3, max_rate_radps=1e3)
    actor = Actor(
        "drone", ActorKind.VEHICLE, "mocap", "drone", imu="imu" if imu else None, limits=limits
    )
    world = World({"mocap": Transform.identity()}, [actor])
    w_body, v_world = np.array([0.3, -0.4, 1.2]), np.array([1.0, -0.5, 0.25])
    for step in range(0, 301, 2):
        t_ns = START_NS - 300 * MS + step * MS
        q = q_exp(w_body * 1e-9 * (t_ns - START_NS))
        if imu:
            f = Transform.of((0, 0, 0), q.tolist()).rotation().T @ np.array([0.0, 0.0, 9.80665])
            world.ingest(ImuSample("imu", None, t_ns, w_body, f))
        if step % 10 == 0:
            p = (v_world * 1e-9 * (t_ns - START_NS))[None]
            world.ingest(
                SourceFrame("mocap", 0, None, t_ns, ("drone",), p, q[None], np.ones(1, np.bool_))
            )
    return world


def _camera(
    name: str = "front", actor: str = "drone", y_m: float = 0.02, **more: Any
) -> BridgeCamera:
    keys: dict[str, Any] = {"modalities": (Modality.RGB,), "plane_depth_m": 4.0}
    place = Transform.of((0.1, y_m, 0.05), T_BODY_CAMERA.q_xyzw.tolist())
    return BridgeCamera(CameraModel(name, 32, 24, 1.2), actor, place, 60.0, **(keys | more))


def _pixels(camera: BridgeCamera, modality: Modality) -> ImageArray:
    shape = camera.geometry.rendered.height_px, camera.geometry.rendered.width_px
    if modality is Modality.DEPTH:
        return np.full(shape, 4000, np.uint16)
    if modality is Modality.FLOW:
        return np.zeros((*shape, 2), np.float32)
    return np.full((*shape, 3) if modality is Modality.RGB else shape, 200, np.uint8)


def _frame(
    world: World, cameras: tuple[BridgeCamera, ...], frame_id: int, **more: Any
) -> RenderedFrame:
    t_pose_ns = START_NS - 20 * MS
    images = []
    for camera in cameras:
        pose = camera.pose_at(world, t_pose_ns)
        for modality in camera.modalities:
            view = View(
                camera.geometry.rendered,
                modality,
                pose.T_world_camera,
                t_pose_ns,
                pose_method=pose.method,
                collision=camera.collision,
            )
            valid = np.ones((view.camera.height_px, view.camera.width_px), np.bool_)
            images.append(
                RenderedImage(
                    view, _pixels(camera, modality), valid if modality is Modality.FLOW else None
                )
            )
    views = tuple(image.view for image in images)
    request = RenderRequest(
        frame_id,
        START_NS - 18 * MS,
        views,
        WorldSnapshot(t_pose_ns, ()),
        START_NS - 25 * MS,
        START_NS - 22 * MS,
    )
    return RenderedFrame(request, START_NS - 5 * MS, tuple(images), **more)


def _passed(
    camera: BridgeCamera, world: World, *frames: RenderedFrame, blank_ns: int | None = None
) -> _Reader:
    reader = _Reader()
    relay = CameraRelay(camera, world, reader, FrameLedger(), Meter())
    if camera.layer == "moved":
        relay.headers.T_body_camera = {"p_m": [0.1, 0.0, 0.0], "q_xyzw": [0.0, 0.0, 0.0, 1.0]}
    for frame in frames:
        relay.offer(frame)
        relay.step()
    if blank_ns is not None:
        relay.offer_blank(blank_ns)
        relay.step()
    relay.close()
    return reader


def _cases() -> Iterator[tuple[str, FrameHeader]]:
    """Name and header of every case."""
    world, felt = _world(imu=False), _world(imu=True)
    depth = (Modality.RGB, Modality.DEPTH)
    left, right = _camera("left", collision=True), _camera("right", y_m=-0.1)
    right.display_times = left.display_times
    pair = _frame(felt, (left, right), 9, landmarks=MARKS, range_m=2.5, collision=True)
    flow = _camera(modalities=(Modality.FLOW,), compensate="rotation")
    wide = _camera(
        modalities=depth, compensate="reproject", margin_rad=0.1, rolling_shutter_ns=10 * MS
    )
    still = _camera("wall", actor="world", compensate="none")
    moved = _camera(layer="moved", modalities=(Modality.GRAY,), plane_depth_m=None)
    readers = {
        "homography": _passed(_camera(), world, _frame(world, (_camera(),), 3)),
        "inertial": _passed(_camera(), felt, _frame(felt, (_camera(),), 4)),
        "depth": _passed(wide, world, _frame(world, (wide,), 5)),
        "no-depth": _passed(
            _camera(compensate="reproject"),
            world,
            _frame(world, (_camera(compensate="reproject"),), 6),
        ),
        "flow": _passed(flow, world, _frame(world, (flow,), 7), _frame(world, (flow,), 8)),
        "left": _passed(left, felt, pair),
        "right": _passed(right, felt, pair),
        "fixed": _passed(still, world, _frame(world, (still,), 10, range_m=1.0)),
        "moved": _passed(moved, world, _frame(world, (moved,), 11)),
        "blank": _passed(_camera(modalities=depth), world, blank_ns=START_NS),
        "blank-moved": _passed(moved, world, blank_ns=START_NS),
    }
    for name, reader in readers.items():
        for number, (header, pixels) in enumerate(reader.frames):
            yield f"{name}/{number}", header
            if header.modality in ("rgb", "depth"):
                encoding = "jpeg" if header.modality == "rgb" else "raw"
                picture = EncodedPicture(header, pixels, 500_000_000)
                yield (
                    f"{name}/{number}/stream",
                    picture.message(EncodingOptions(encoding, "gray", 90)).header,
                )


def _rounded(match: re.Match[bytes]) -> bytes:
    """Round to what no machine's arithmetic and no constant of the estimation changes."""
    return repr(round(float(match[0]), 4) + 0.0).encode()


def _ten_us(match: re.Match[bytes]) -> bytes:
    """Round a time that the filter estimates: its last digits follow the machine's BLAS."""
    return str(round(int(match[0]), -4)).encode()


def _line(name: str, header: FrameHeader) -> bytes:
    return name.encode() + b" " + _ESTIMATED_NS.sub(_ten_us, _FLOAT.sub(_rounded, header.to_json()))


def _lines() -> list[bytes]:
    bridge_clock().stand_at(START_NS)
    try:
        assert now_ns() == START_NS
        return [_line(name, header) for name, header in _cases()]
    finally:
        bridge_clock().real()


def test_headers_are_byte_for_byte_those_of_the_table() -> None:
    expected = TABLE.read_bytes().splitlines()
    found = _lines()
    assert [line.partition(b" ")[0] for line in found] == [
        line.partition(b" ")[0] for line in expected
    ]
    for made, stored in zip(found, expected, strict=True):
        assert made == stored


@pytest.mark.parametrize("key", ["blank", "T_body_camera", "encoding", "memory", "race"])
def test_optional_keys_are_left_out(key: str) -> None:
    keys = {
        line.partition(b" ")[0]: msgspec.json.decode(line.partition(b" ")[2]) for line in _lines()
    }
    assert key not in keys[b"homography/0"]


if __name__ == "__main__":
    TABLE.write_bytes(b"".join(line + b"\n" for line in _lines()))
