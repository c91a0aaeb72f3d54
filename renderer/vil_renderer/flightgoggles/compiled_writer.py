"""Pose messages whose numbers the compiled kernel writes (``kernel/numbers.c``).

From message to message of the same cameras and rigid actors, only poses and times differ: their
text is made once, with gaps for these. Numbers have nine decimals: a nanometre, and a billionth of
an attitude.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from vil_bridge.core.block_snapshot import ActorTable, BlockSnapshot
from vil_bridge.core.errors import RendererError
from vil_bridge.core.geometry import enu_flu_to_unity, optical_to_unity
from vil_bridge.core.types import ActorKind, FloatArray, RenderRequest, TrackingState, WorldSnapshot
from vil_bridge.kernel.library import KERNEL, function
from vil_bridge.kernel.structs import VilPoseText
from vil_renderer.flightgoggles.codec import NUMBER, RING, WrittenPose, encode_pose
from vil_renderer.flightgoggles.convert import PoseWriter
from vil_renderer.flightgoggles.messages import PoseMessage

_ROW: Final = 7
_MOST_CHARACTERS: Final = 24
_MOST_TEMPLATES: Final = 16
_POSITION: Final = b"[\1,\1,\1]"
_ROTATION: Final = b"[\1,\1,\1,\1]"
_TIME: Final = b"\3"
_LOST: Final = TrackingState.LOST


def _turn(convert: Any) -> FloatArray:
    """Return the matrix (7, 7) that does to a pose, as a row, what a conversion does to position
    and attitude.
    """
    turn = np.zeros((_ROW, _ROW))
    turn[:3, :3], turn[3:, 3:] = convert(np.eye(3), np.eye(4))
    return turn


_BODY, _CAMERA = _turn(enu_flu_to_unity), _turn(optical_to_unity)


class _Template:
    """Text of the messages of one form.

    Args:
        text: JSON with gaps. rows: of the poses in the order of their gaps. bodies, cameras: number
            of poses.
        meant: objects whose identity is part of the form.
    """

    def __init__(
        self, text: bytes, rows: Sequence[int], bodies: int, cameras: int, meant: Sequence[object]
    ) -> None:
        self._text = text
        self._bodies = bodies
        self._meant = meant
        starts = _ROW * np.array(rows, dtype=np.int32)
        indices = np.add.outer(starts, np.arange(_ROW, dtype=np.int32)).ravel()
        self._poses, values = (np.zeros((bodies + cameras, _ROW)) for _ in range(2))
        self._out = np.zeros(len(text) + (indices.size + 2) * _MOST_CHARACTERS, dtype=np.uint8)
        self._struct = VilPoseText(
            bodies=bodies,
            cameras=cameras,
            gaps=indices.size,
            capacity=self._out.size,
            body_turn=_BODY,
            camera_turn=_CAMERA,
            poses=self._poses,
            indices=indices,
            values=values,
            out=self._out,
        )
        self._out_address = self._out.ctypes.data

    def written(self, write: Any, poses: FloatArray, request: RenderRequest) -> bytes | None:
        """Return the text with the numbers of now; None where one is not finite, or absurd."""
        self._poses[: self._bodies] = poses
        for row, view in enumerate(request.views, self._bodies):
            place = view.T_world_camera
            self._poses[row, :3] = place.p_m
            self._poses[row, 3:] = place.q_xyzw
        text = self._text.replace(_TIME, b"%d" % request.snapshot.t_ns)
        size = write(self._struct.pointer, text, len(text))
        return None if size < 0 else ctypes.string_at(self._out_address, size)


class CompiledPoseWriter(PoseWriter):
    """Writer of messages that are JSON already, where all actors are rigid."""

    def __init__(self, scene: str, prefabs: Mapping[ActorKind, str]) -> None:
        super().__init__(scene, prefabs)
        self._write = function(
            "vil_write_poses",
            ctypes.c_void_p,
            ctypes.c_char_p,
            ctypes.c_int64,
            returns=ctypes.c_int64,
        )
        self._templates: dict[tuple[object, ...], _Template] = {}

    def message(self, request: RenderRequest) -> PoseMessage | WrittenPose:
        """Return the pose message of a request.

        Raises:
            RendererError: there is no camera.
        """
        if not request.views:
            return super().message(request)
        snapshot = request.snapshot
        if isinstance(snapshot, BlockSnapshot) and snapshot.poses is not None:
            block = snapshot
        else:
            block = _block(snapshot)
        assert block.poses is not None, "it is a block"
        if not block.states or any(block.skeletons):
            return self._structured(request)
        key = self._key(request, block)
        template = self._templates.get(key)
        if template is None:
            plain = self._structured(request)
            try:
                encode_pose(plain)
            except RendererError:  # for the encoder to say
                return plain
            if len(self._templates) >= _MOST_TEMPLATES:
                self._templates.clear()
            template = self._templates[self._key(request, block)] = self._template(request, block)
        text = template.written(self._write, block.poses, request)
        return self._structured(request) if text is None else WrittenPose(text, request.frame_id)

    def _key(self, request: RenderRequest, block: BlockSnapshot) -> tuple[object, ...]:
        """Return what messages of one form share."""
        views = tuple(
            (id(v.camera), v.modality, v.due, v.collision, v.hide, v.layer, v.reach_m)
            for v in request.views
        )
        lost: tuple[bool, ...] = ()
        if _LOST in block.states:
            lost = tuple(state is _LOST for state in block.states)
        known: object = block.table
        if block is request.snapshot and block.table is not None:
            known = id(block.table)
        return known, lost, views, id(request.snapshot.lighting), len(self._known)

    def _template(self, request: RenderRequest, block: BlockSnapshot) -> _Template:
        """Make the text for these actors and cameras."""
        rows = [row for row, state in enumerate(block.states) if state is not _LOST]
        actors = [request.snapshot.actors[row] for row in rows]
        positions: list[Any] = [msgspec.Raw(_POSITION) for _ in actors]
        rotations: list[Any] = [msgspec.Raw(_ROTATION) for _ in actors]
        objects = self._objects(actors, self._hidden(actors, request.views), positions, rotations)
        extended = list(map(self._extended_actor, actors, positions, rotations))
        message: Any = self._assembled(request, objects, extended, [])
        for camera in message.cameras:
            camera.position, camera.rotation = msgspec.Raw(_POSITION), msgspec.Raw(_ROTATION)
        message.ntime = message.utime = msgspec.Raw(NUMBER)
        message.vil.t_ns, message.vil.ring = msgspec.Raw(_TIME), msgspec.Raw(RING)
        row_of = {id(position): row for position, row in zip(positions, rows, strict=True)}
        things: list[Any] = [*objects, *extended]
        shown = [row_of[id(one.position)] for one in things if id(one.position) in row_of]
        bodies = len(block.states)
        cameras = len(request.views)
        meant = block.table, request.snapshot.lighting, [view.camera for view in request.views]
        gaps = [*range(bodies, bodies + cameras), *shown]
        return _Template(msgspec.json.encode(message), gaps, bodies, cameras, meant)


def _block(snapshot: WorldSnapshot) -> BlockSnapshot:
    """Return a snapshot of actors as one with an array."""
    actors = snapshot.actors
    poses = np.zeros((len(actors), _ROW))
    for pose, actor in zip(poses, actors, strict=True):
        pose[:3] = actor.T_world_body.p_m
        pose[3:] = actor.T_world_body.q_xyzw
    states = [a.state for a in actors]
    ages_ns = [a.age_ns for a in actors]
    skeletons = [a.skeleton for a in actors]
    return BlockSnapshot.of(
        snapshot.t_ns, ActorTable.of(actors), poses, states, ages_ns, skeletons, snapshot.lighting
    )


def pose_writer(scene: str, prefabs: Mapping[ActorKind, str]) -> PoseWriter:
    """Return a writer: one that uses the kernel where it is there."""
    return PoseWriter(scene, prefabs) if KERNEL is None else CompiledPoseWriter(scene, prefabs)
