"""Renderer of a data set's shards, one in each worker.

Its output depends on the plan and the shard alone.
"""

from __future__ import annotations

import io
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import numpy as np

from vil_bridge.config.camera import CameraConfig
from vil_bridge.core.camera_model import CameraModel
from vil_bridge.core.geometry import T_FLU_OPTICAL, Transform, q_from_euler_zyx
from vil_bridge.core.text import csv_line
from vil_bridge.core.types import Modality, RenderedImage, View, WorldSnapshot
from vil_bridge.core.weather import FINE
from vil_bridge.offline.files import encoded, suffix_of
from vil_bridge.protocols.euroc import ROOT, TABLE, camera_folder
from vil_renderer.offline_renderer import open_renderer
from vil_simulation.dataset.frames import DatasetFrame, Shard
from vil_simulation.dataset.gate_labels import CORNERS, gate_labels
from vil_simulation.dataset.plan import DatasetPlan

if TYPE_CHECKING:
    from vil_renderer.embedded import EmbeddedRenderer, RayWorld, SpinningLidar

Write = Callable[[str, bytes], None]
"""Takes a file: its path in the data set, and what it holds."""

FRAMES: Final = "frames.csv"
LIDAR: Final = f"{ROOT}/lidar0"
RANGE: Final = f"{ROOT}/range0"
GATES: Final = "gates.csv"
GATE_COLUMNS: Final = (
    "t_ns", "camera", "gate", "left_px", "top_px", "width_px", "height_px", "area_px2",
    *(f"{corner}_{value}" for corner in CORNERS for value in ("u_px", "v_px", "visibility")),
)  # fmt: skip
"""Head of the table of gates: a row is a gate in a picture; see :class:`GateLabel`."""
_DOWN: Final = Transform.of((0.0, 0.0, 0.0), q_from_euler_zyx(0.0, math.pi / 2, 0.0))
_LIDAR_RINGS_DEG: Final = np.linspace(-15.0, 15.0, 16)
_LIDAR_POINTS: Final = 900


@dataclass(frozen=True, slots=True)
class SetCamera:
    """A camera of a data set.

    Attributes:
        folder: in the scene's folder, ``mav0/cam0`` and on.
        T_body_optical: its optical axes on the body.
        main: the modality that stands where EuRoC has its pictures.
    """

    folder: str
    model: CameraModel
    T_body_optical: Transform
    modalities: tuple[Modality, ...]

    @property
    def main(self) -> Modality:
        """Gray where there is gray, since that is what EuRoC has."""
        return Modality.GRAY if Modality.GRAY in self.modalities else Modality.RGB

    def path(self, modality: Modality, t_ns: int, suffix: str) -> str:
        """Return the path of a picture."""
        return f"{self.folder}/{'data' if modality is self.main else modality}/{t_ns}{suffix}"


class ShardResult(NamedTuple):
    """Result of a shard.

    Attributes:
        tables: rows by table. labels: classes and instances by name.
        drawn_by: name of the OpenGL renderer. cpu_s: CPU time that it took.
        files: those that the worker could not write itself.
    """

    tables: dict[str, list[str]]
    labels: dict[str, dict[str, int]]
    drawn_by: str
    cpu_s: float
    files: dict[str, bytes]


def set_cameras(plan: DatasetPlan) -> list[SetCamera]:
    """Return the cameras in their order."""
    return [
        _set_camera(k, name, config) for k, (name, config) in enumerate(plan.every_camera().items())
    ]


def _set_camera(number: int, name: str, config: CameraConfig) -> SetCamera:
    T_body_optical = config.T_body_camera.transform() @ T_FLU_OPTICAL
    return SetCamera(
        f"{ROOT}/{camera_folder(number)}",
        config.camera_model(name),
        T_body_optical,
        config.modalities,
    )


def columns_of(plan: DatasetPlan) -> list[str]:
    """Return the head of the index.

    A row is a frame of a camera, files are named from the scene's folder.
    """
    pose = ["x_m", "y_m", "z_m", "qx", "qy", "qz", "qw"]
    return ["frame", "t_ns", "camera", *pose, *_kinds(plan, set_cameras(plan))]


def _kinds(plan: DatasetPlan, cameras: Sequence[SetCamera]) -> list[str]:
    """Return the columns with files."""
    wanted = {modality for camera in cameras for modality in camera.modalities}
    drawn = [str(modality) for modality in Modality if modality in wanted]
    return drawn + [kind for kind in ("beacons", "gates") if kind in plan.measure]


class ShardRenderer:
    """Renderer of shards, one scene at a time; use it as a context manager, in one thread."""

    def __init__(self, plan: DatasetPlan) -> None:
        self._plan = plan
        self._cameras = set_cameras(plan)
        self._kinds = _kinds(plan, self._cameras)
        self._looks_back = any(_looks_back(camera) for camera in self._cameras)
        self._stage: _Stage | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the renderer back; may be called twice."""
        if self._stage is not None:
            self._stage.renderer.close()
            self._stage = None

    def draw(self, shard: Shard, write: Write) -> ShardResult:
        """Draw all frames of a shard; a file that stands there already is written again, the same.

        Raises:
            RendererError: this machine cannot draw the scene.
            OSError: of ``write``.
        """
        begun_s = time.process_time()
        stage = self._on_stage(shard)
        rows = _Rows(write)
        if "gates" in self._plan.measure:
            rows.tables[GATES] = []
        if shard.before is not None and self._looks_back:
            stage.renderer.render(self._views(shard.before, shard.hidden), shard.before.snapshot)
        for frame in shard.frames:
            self._draw_frame(stage, frame, shard.hidden, rows)
        classes = dict(stage.renderer.scene.classes)
        labels = {"classes": classes, "instances": dict(stage.renderer.instances)}
        return ShardResult(
            rows.tables,
            labels,
            stage.renderer.info["gl_renderer"],
            time.process_time() - begun_s,
            {},
        )

    def _on_stage(self, shard: Shard) -> _Stage:
        if self._stage is None or self._stage.scene != shard.scene:
            self.close()
            renderer = open_renderer(shard.scene, self._plan.profile)
            renderer.pose(WorldSnapshot(0, shard.cast))
            self._stage = _Stage(shard.scene, renderer)
        return self._stage

    def _views(self, frame: DatasetFrame, hidden: tuple[str, ...]) -> list[View]:
        return [
            View(
                camera.model,
                modality,
                frame.T_world_body @ camera.T_body_optical,
                frame.t_ns,
                hide=hidden,
            )
            for camera in self._cameras
            for modality in camera.modalities
        ]

    def _draw_frame(
        self, stage: _Stage, frame: DatasetFrame, hidden: tuple[str, ...], rows: _Rows
    ) -> None:
        views = self._views(frame, hidden)
        images = iter(stage.renderer.render(views, frame.snapshot))
        for camera in self._cameras:
            files = dict(self._pictures(camera, images, rows.write))
            T = frame.T_world_body @ camera.T_body_optical
            if "beacons" in self._plan.measure:
                view = View(camera.model, camera.main, T, frame.t_ns, hide=hidden)
                files["beacons"] = f"{camera.folder}/beacons/{frame.t_ns}.json"
                rows.write(files["beacons"], stage.beacons(view, frame.snapshot))
            if "gates" in self._plan.measure:
                files["gates"] = self._label_gates(stage, frame, hidden, camera, rows)
            pose = map(repr, (*T.p_m.tolist(), *T.q_xyzw.tolist()))
            named = (files.get(kind, "") for kind in self._kinds)
            rows.add(FRAMES, frame.number, frame.t_ns, camera.model.name, *pose, *named)
            rows.add(f"{camera.folder}/{TABLE}", frame.t_ns, files[camera.main].rpartition("/")[2])
        self._measure(stage, frame, hidden, rows)

    def _pictures(
        self, camera: SetCamera, images: Iterator[RenderedImage], write: Write
    ) -> Iterator[tuple[str, str]]:
        """Write the pictures of a camera, which come in the order of its modalities.

        Kind and path of each.
        """
        for modality in camera.modalities:
            image = next(images)
            path = camera.path(modality, image.view.t_pose_ns, suffix_of(image.pixels))
            write(path, encoded(image.pixels, image.valid))
            yield str(modality), path

    def _label_gates(
        self,
        stage: _Stage,
        frame: DatasetFrame,
        hidden: tuple[str, ...],
        camera: SetCamera,
        rows: _Rows,
    ) -> str:
        """Write the labels of the gates in a picture; their path.

        Motion blur is symmetric about the frame's pose.
        """
        T = frame.T_world_body @ camera.T_body_optical
        world = stage.world(frame.snapshot)
        model = camera.model
        labels = gate_labels(stage.renderer.scene.gates, model, T, world, frozenset(hidden))
        for label in labels:
            corners = zip(label.corners_px.tolist(), label.visibility, strict=True)
            cells = [cell for (u, v), seen in corners for cell in (repr(u), repr(v), seen)]
            rows.add(
                GATES,
                frame.t_ns,
                model.name,
                label.name,
                *map(repr, (*label.box_px, label.area_px2)),
                *cells,
            )
        path = f"{camera.folder}/labels/{frame.t_ns}.txt"
        lines = (label.line(model.width_px, model.height_px) + "\n" for label in labels)
        rows.write(path, "".join(lines).encode())
        return path

    def _measure(
        self, stage: _Stage, frame: DatasetFrame, hidden: tuple[str, ...], rows: _Rows
    ) -> None:
        if "lidar" in self._plan.measure:
            name = f"{frame.t_ns}.npy"
            rows.write(f"{LIDAR}/data/{name}", stage.sweep(frame, hidden))
            rows.add(f"{LIDAR}/{TABLE}", frame.t_ns, name)
        if "range" in self._plan.measure:
            rows.add(f"{RANGE}/{TABLE}", frame.t_ns, *stage.below(frame, hidden))


class _Rows:
    """Tables of a shard as they grow, and where its files go."""

    def __init__(self, write: Write) -> None:
        self.tables: dict[str, list[str]] = {}
        self.write = write

    def add(self, table: str, *cells: object) -> None:
        self.tables.setdefault(table, []).append(csv_line(cells).rstrip("\n"))


@dataclass(slots=True)
class _Stage:
    """A scene being drawn, and its geometry for those who measure it."""

    scene: str
    renderer: EmbeddedRenderer
    _rays: RayWorld | None = None
    _lidar: SpinningLidar | None = None

    def world(self, snapshot: WorldSnapshot) -> RayWorld:
        """Return the geometry that rays hit at a snapshot.

        Raises:
            RendererError: rays need a package that is absent.
        """
        self.renderer.pose(snapshot)
        if self.renderer.rays is not None:
            return self.renderer.rays
        from vil_renderer.embedded import RayWorld

        return RayWorld(self.renderer.scene)  # says what is missing

    def sweep(self, frame: DatasetFrame, hidden: tuple[str, ...]) -> bytes:
        """Return one turn of the lidar, as a NumPy file."""
        weather = self.renderer.weather(frame.snapshot)
        if self._lidar is None or weather != FINE:
            from vil_renderer.embedded import SpinningLidar

            # The time is the seed: a frame is the same in any shard.
            self._lidar = SpinningLidar(
                np.radians(_LIDAR_RINGS_DEG), _LIDAR_POINTS, seed=abs(frame.t_ns)
            )
        world = self.world(frame.snapshot)
        points = self._lidar.sweep(world, [frame.T_world_body], frozenset(hidden), weather=weather)
        stream = io.BytesIO()
        np.save(stream, points, allow_pickle=False)
        return stream.getvalue()

    def below(self, frame: DatasetFrame, hidden: tuple[str, ...]) -> tuple[str, int]:
        """Return the distance downwards in metres, ``inf`` for nothing, and whether the body
        touches something.
        """
        from vil_renderer.embedded import RangeFinder

        world = self.world(frame.snapshot)
        weather = self.renderer.weather(frame.snapshot)
        finder = RangeFinder(_DOWN, seed=abs(frame.t_ns))
        metres: Any = finder.measure(world, frame.T_world_body, frozenset(hidden), weather=weather)
        T = frame.T_world_body @ T_FLU_OPTICAL
        body = View(CameraModel("body", 16, 16, 1.0), Modality.RGB, T, frame.t_ns, hide=hidden)
        return repr(float(metres[0])), int(self.renderer.collision(body, frame.snapshot))

    def beacons(self, view: View, snapshot: WorldSnapshot) -> bytes:
        """Return the beacons that a camera sees: name to u, v in pixels and z-depth in metres."""
        self.world(snapshot)
        seen = {
            mark.name: (mark.u_px, mark.v_px, mark.depth_m)
            for mark in self.renderer.landmarks(view, snapshot)
        }
        return json.dumps(seen).encode()


def _looks_back(camera: SetCamera) -> bool:
    """Return True when a camera's pictures depend on the frame before."""
    return Modality.FLOW in camera.modalities or camera.model.effects.shutter > 0.0
