"""The process of a scene that answers questions.

``python -m vil_renderer.embedded.servers.queries SOCKET MEMORY``.

Its owner starts it with two file descriptors, a socket and shared memory; it ends when the owner
closes the socket.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace

import msgspec
import numpy as np

from vil_bridge.core.errors import RendererError
from vil_bridge.core.types import Modality, RenderedImage, View, WorldSnapshot
from vil_bridge.interfaces.scene_queries import PictureBefore, SceneMarker
from vil_bridge.runtime.heap import freeze_heap
from vil_renderer.embedded.engine.opengl import OpenGL
from vil_renderer.embedded.geometry.ray_world import RayWorld
from vil_renderer.embedded.postprocess.markers import draw_markers
from vil_renderer.embedded.renderer import EmbeddedRenderer
from vil_renderer.embedded.scene import Scene
from vil_renderer.embedded.scene_edits import EditedScene
from vil_renderer.embedded.scene_geometry import mesh_of, occupied_cells
from vil_renderer.embedded.scenefile import load_scene
from vil_renderer.queries.block import Array, SharedBlock
from vil_renderer.queries.messages import (
    AddMarkers,
    Assets,
    Cast,
    Images,
    Instances,
    ListMeshes,
    Load,
    Objects,
    Occupied,
    Question,
    SetObjects,
    decode_question,
    decode_snapshot,
    encode,
)
from vil_renderer.queries.process import PACKET

logger = logging.getLogger(__name__)


class SceneAnswers:
    """A scene and its answers.

    Raises:
        RendererError: no such scene, or this machine cannot draw.
    """

    def __init__(self, load: Load) -> None:
        def make(scene: Scene) -> EmbeddedRenderer:
            return EmbeddedRenderer(
                scene, load.profile, device=opengl, depth_reach_m=load.depth_reach_m
            )

        scene = load_scene(load.scene)
        opengl = OpenGL(load.device)
        self._scene = EditedScene(scene, make)
        self._scene.apply(load.states)
        self._markers = load.markers
        self._snapshot: tuple[bytes, WorldSnapshot] | None = None

    @property
    def info(self) -> dict[str, object]:
        """The renderer's strings."""
        return self._scene.renderer.info

    def answer(self, question: Question, arrays: Sequence[Array]) -> tuple[object, Sequence[Array]]:
        """Return the value and the arrays of an answer.

        Raises:
            RendererError: the question cannot be answered.
        """
        match question:
            case Images():
                return None, self._images(question)
            case Cast():
                return None, self._cast(question, *arrays)
            case Objects():
                return self._scene.rows(question.t_ns), ()
            case Instances():
                return dict(self._scene.renderer.instances), ()
            case SetObjects():
                self._snapshot = None
                return self._scene.apply(question.states, question.t_ns), ()
            case AddMarkers():
                self._markers = (*self._markers[question.dropped :], *question.markers)
                return None, ()
            case Assets():
                return self._scene.assets, ()
            case Occupied():
                first_m = np.array(question.first_m)
                return None, [
                    occupied_cells(self._scene.whole(), first_m, question.cell_m, question.shape)
                ]
            case ListMeshes():
                things = self._scene.whole().objects
                return [thing.name for thing in things], [
                    array for thing in things for array in mesh_of(thing)
                ]
            case Load():
                raise RendererError("the scene is loaded already")

    def _images(self, question: Images) -> list[Array]:
        snapshot = self._at(question.snapshot)
        markers = [m for m in self._markers if m.until_ns is None or snapshot.t_ns < m.until_ns]
        before = question.before
        if before is not None:
            before = replace(before, snapshot=self._scene.with_edits(before.snapshot))
        if markers:
            images = self._marked(question.views, snapshot, before, markers)
        else:
            images = self._scene.renderer.render(question.views, snapshot, before)
        found = ((image.pixels, image.valid) for image in images)
        return [array for pair in found for array in pair if array is not None]

    def _marked(
        self,
        views: Sequence[View],
        snapshot: WorldSnapshot,
        before: PictureBefore | None,
        markers: Sequence[SceneMarker],
    ) -> Sequence[RenderedImage]:
        """Return pictures with markers in those of colour; their depth comes from the same pass."""
        coloured = [
            i for i, view in enumerate(views) if view.modality is Modality.RGB and not view.layer
        ]
        depths = [replace(views[i], modality=Modality.DEPTH32) for i in coloured]
        if before is not None:
            places = before.T_world_cameras
            before = replace(before, T_world_cameras=(*places, *(places[i] for i in coloured)))
        images = self._scene.renderer.render([*views, *depths], snapshot, before)
        for i, depth in zip(coloured, images[len(views) :], strict=True):
            draw_markers(
                images[i].pixels, depth.pixels, views[i].camera, views[i].T_world_camera, markers
            )
        return images[: len(views)]

    def _cast(self, question: Cast, origins_m: Array, directions: Array) -> list[Array]:
        renderer = self._scene.renderer
        renderer.pose(self._at(question.snapshot))
        rays = renderer.rays or RayWorld(renderer.scene)  # which says what to install
        hits = rays.cast(origins_m, directions, question.reach_m, frozenset(question.hide))
        return [hits.distance_m, hits.instance, hits.normal_world]

    def _at(self, encoded: msgspec.Raw) -> WorldSnapshot:
        """Return a snapshot.

        The same object for the same bytes, since models are posed once for each.
        """
        data = bytes(encoded)
        if self._snapshot is None or self._snapshot[0] != data:
            self._snapshot = data, self._scene.with_edits(decode_snapshot(data))
        return self._snapshot[1]


class _Owner:
    """The owner's socket and the shared memory."""

    def __init__(self, socket_fd: int, memory_fd: int) -> None:
        self._socket = socket.socket(fileno=socket_fd)
        self._block = SharedBlock(memory_fd)
        threading.Thread(
            target=_end_with_owner, args=(socket_fd,), name="owner", daemon=True
        ).start()

    def receive(self) -> tuple[Question, list[Array]] | None:
        """Return the next question and its arrays in the shared memory.

        None = the owner is gone.
        """
        packet = self._socket.recv(PACKET.size)
        if not packet:
            return None
        offset, length, size = PACKET.unpack(packet)
        self._block.map(size)
        message = self._block.read(offset, length)
        return decode_question(message.body), [self._block.view(place) for place in message.arrays]

    def send(
        self, value: object, arrays: Sequence[Array] = (), error: str = "", work_ns: int = 0
    ) -> None:
        """Send an answer."""
        try:
            offset, length = self._block.write(encode(value), arrays, error, work_ns)
        except RendererError as exc:
            offset, length = self._block.write(encode(None), error=str(exc))
        self._socket.send(PACKET.pack(offset, length, self._block.size))


def _end_with_owner(socket_fd: int) -> None:
    """End the process when the owner's end is closed, even in the middle of a long answer."""
    poll = select.poll()
    poll.register(socket_fd, select.POLLRDHUP | select.POLLHUP)
    poll.poll()
    os._exit(0)


def _yield_to_owner() -> None:
    """Do not stop the owner's loop on the same core when its question wakes this process up.

    The loop's real-time priority, which a child inherits, is not for drawing: it would stop all
    other programs.
    """
    if hasattr(os, "SCHED_BATCH") and os.sched_getscheduler(0) in (
        os.SCHED_OTHER,
        os.SCHED_FIFO,
        os.SCHED_RR,
    ):
        with contextlib.suppress(PermissionError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def serve(owner: _Owner) -> None:
    """Answer questions until the owner is gone.

    The first one loads the scene; without a scene there is no second.
    """
    first = owner.receive()
    if first is None:
        return
    question, _ = first
    if not isinstance(question, Load):
        raise RendererError("the first question must load the scene")
    try:
        scene = SceneAnswers(question)
    except RendererError as exc:
        owner.send(None, error=str(exc))
        return
    owner.send(scene.info)
    while (received := owner.receive()) is not None:
        started_ns = time.perf_counter_ns()
        try:
            value, arrays = scene.answer(*received)
        except RendererError as exc:
            owner.send(None, error=str(exc))
        else:
            owner.send(value, arrays, work_ns=time.perf_counter_ns() - started_ns)


def main(socket_fd: int, memory_fd: int) -> None:
    """Answer until the owner is gone.

    A bug ends the process at once, since the owner starts another.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the owner, which ends this process
    _yield_to_owner()
    freeze_heap()
    # One thread shades vertices; more would take the bridge's cores.
    os.environ.setdefault("LP_NUM_THREADS", "1")
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    try:
        serve(_Owner(socket_fd, memory_fd))
    except OSError as exc:
        logger.info("the owner is gone: %s", exc)
    except BaseException:
        logger.exception("the scene's process ends")
        os._exit(1)  # now, so that the owner reads the exit code as soon as the socket is closed


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
