"""Plan of a data set: scenes, a flight, cameras, an IMU.

Read from YAML as strictly as a configuration.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, StringConstraints, ValidationError, model_validator

from vil_bridge.config.base import StrictModel, TransformConfig, custom
from vil_bridge.config.camera import CameraConfig
from vil_bridge.config.error_report import explain, read_tree, written
from vil_bridge.config.optics import EffectsConfig, LensConfig
from vil_bridge.config.references import RIGHT
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.types import Modality
from vil_simulation.vehicles.sensors.presets import IMU_PRESETS

Point = tuple[float, float, float]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]*$", max_length=64)]
Measurement = Literal["lidar", "range", "beacons", "gates"]
"""Measured in addition to the pictures."""

_MOST_FRAMES: Final = 1_000_000
_MOST_CAMERAS: Final = 16


class CirclePath(StrictModel):
    """A level circle to the left, from rest to rest, the nose along the flight."""

    radius_m: float = Field(default=1.5, gt=0, le=1000, description="Metres.")
    speed_mps: float = Field(
        default=0.8, gt=0, le=100, description="Between run-in and run-out, m/s."
    )
    center_m: Point = Field(default=(0.0, 0.0, 1.5), description="World, metres.")
    turns: float | None = Field(
        default=None,
        gt=0,
        le=10_000,
        description="Rounds in all; none = as many as `frames` needs, else 2.",
    )


class WaypointsPath(StrictModel):
    """A minimum-snap polynomial through waypoints, from rest to rest, as fast as the limits
    allow.
    """

    points_m: tuple[Point, ...] = Field(min_length=2, max_length=200, description="World, metres.")
    speed_mps: float = Field(default=2.0, gt=0, le=100, description="Limit, m/s.")
    acceleration_mps2: float = Field(default=5.0, gt=0, le=1000, description="Limit, m/s^2.")
    yaw_deg: float | Literal["along"] = Field(
        default="along", description="Heading; along = the way goes, degrees."
    )


class RacePath(StrictModel):
    """The same through the gates of the scene."""

    speed_mps: float = Field(default=8.0, gt=0, le=100, description="Limit, m/s.")
    acceleration_mps2: float = Field(default=12.0, gt=0, le=1000, description="Limit, m/s^2.")
    laps: int = Field(default=1, ge=1, le=100, description="Rounds.")


class RecordedPath(StrictModel):
    """A recorded flight.

    One of ours (MCAP), EuRoC, TUM, or what else the source `recording` reads.
    """

    file: Path = Field(description="The recording; relative to the plan.")
    subject: str = Field(
        default="",
        max_length=255,
        description="Body that carries the cameras, in MCAP an actor; empty = the first.",
    )
    start_s: float = Field(
        default=0.0, ge=0, description="What is left out at the beginning, seconds."
    )
    smooth_s: float = Field(
        default=0.05,
        ge=0.005,
        le=1,
        description="Distance of the knots of the spline through the recorded poses, seconds: what "
        "changes faster is "
        "noise of the tracking.",
    )


class TrajectoryPlan(StrictModel):
    """The flight of the body; exactly one."""

    circle: CirclePath | None = Field(default=None, description="A circle.")
    waypoints: WaypointsPath | None = Field(
        default=None, description="A polynomial through points."
    )
    race: RacePath | None = Field(default=None, description="Through the gates of the scene.")
    recorded: RecordedPath | None = Field(default=None, description="From a recording.")

    @model_validator(mode="after")
    def _one(self) -> Self:
        if sum(getattr(self, name) is not None for name in type(self).model_fields) != 1:
            raise custom(f"wants exactly one of {', '.join(type(self).model_fields)}")
        return self


class DatasetCamera(StrictModel):
    """A camera on the body."""

    T_body_camera: TransformConfig = Field(
        default=TransformConfig(),
        description="Its place; body-like axes: x looks forward, y left, z up.",
    )
    stereo_baseline_m: float | None = Field(
        default=None,
        gt=0,
        le=10,
        description="Adds NAME_right, this far to the right; none = a single camera.",
    )
    width_px: int = Field(default=640, ge=16, le=8192, description="Pixels.")
    height_px: int = Field(default=480, ge=16, le=8192, description="Pixels.")
    fov_y_deg: float = Field(
        default=70.0, ge=1, le=170, description="Vertical field of view of an ideal lens."
    )
    lens: LensConfig = Field(
        default=LensConfig(), description="A calibrated lens; by default an ideal one."
    )
    effects: EffectsConfig = Field(default=EffectsConfig(), description="What a real camera adds.")
    modalities: tuple[Modality, ...] | None = Field(
        default=None, min_length=1, description="Of this camera; none = the plan's."
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.effects.auto_exposure:
            raise custom(
                "effects.auto_exposure depends on all pictures before: set "
                "effects.exposure_ev instead"
            )
        try:
            self.as_camera((Modality.RGB,))
        except ValidationError as exc:
            raise custom("; ".join(error["msg"] for error in exc.errors())) from None
        return self

    def as_camera(self, modalities: tuple[Modality, ...]) -> CameraConfig:
        """Return the same as a camera of the bridge, which checks what else there is to check."""
        given = self.model_dump(exclude_unset=True)
        return CameraConfig.model_validate(
            given
            | {
                "renderer": "offline",
                "latency_compensation": "none",
                "modalities": self.modalities or modalities,
            }
        )


class ImuPlan(StrictModel):
    """An IMU on the body; EuRoC's body frame is its."""

    preset: str = Field(
        default="mpu6000", description="Part, as docs/reference/vehicles/sensors.md lists them."
    )
    rate_hz: float = Field(default=200.0, ge=1, le=10_000, description="Samples per second.")
    T_body_imu: TransformConfig = Field(
        default=TransformConfig(), description="Its place and axes on the body."
    )

    @model_validator(mode="after")
    def _known(self) -> Self:
        if self.preset not in IMU_PRESETS:
            raise custom(f"no IMU is named {self.preset!r}; known: {', '.join(IMU_PRESETS)}")
        return self


class DatasetPlan(StrictModel):
    """A whole data set; the same plan makes the same bytes."""

    version: Literal[1] = Field(default=1, description="Version of the format.")
    scenes: tuple[str, ...] = Field(
        default=("hall",),
        min_length=1,
        max_length=64,
        description="Names, or scene files relative to the plan.",
    )
    trajectory: TrajectoryPlan = Field(
        default=TrajectoryPlan(circle=CirclePath()),
        description="The flight; the same in every scene but for races.",
    )
    rate_hz: float = Field(default=20.0, gt=0, le=1000, description="Frames per second.")
    frames: int | None = Field(
        default=None,
        ge=1,
        le=_MOST_FRAMES,
        description="In each scene; none = as long as the flight lasts.",
    )
    seed: int = Field(
        default=0, ge=0, description="Of the IMU's noise; that of pictures follows from their time."
    )
    profile: Literal["low", "medium", "high", "ultra"] = Field(
        default="low", description="Quality of the pictures."
    )
    modalities: tuple[Modality, ...] = Field(
        default=(Modality.RGB,), min_length=1, description="Of every camera."
    )
    cameras: dict[Name, DatasetCamera] = Field(
        default={"front": DatasetCamera()},
        min_length=1,
        description="Cameras by name; cam0, cam1... in this order.",
    )
    imu: ImuPlan | None = Field(default=None, description="An IMU; none = none.")
    measure: tuple[Measurement, ...] = Field(
        default=(),
        description="In addition to the pictures: lidar (16 rings), range (downwards, and "
        "collisions), beacons, "
        "gates (labels of the corners of race gates).",
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        stems = [scene_name(scene) for scene in self.scenes]
        if len(set(stems)) != len(stems):
            raise custom(f"two scenes have the same name: {', '.join(stems)}")
        cameras = self.every_camera()
        if len(cameras) > _MOST_CAMERAS:
            raise custom(f"{len(cameras)} cameras, at most {_MOST_CAMERAS}")
        for name, camera in cameras.items():
            if not {Modality.RGB, Modality.GRAY} & set(camera.modalities):
                raise custom(
                    f"camera {name} needs rgb or gray among its modalities: EuRoC's "
                    "layout is made of them"
                )
            if Modality.RGBA in camera.modalities:
                raise custom(
                    f"camera {name}: rgba is a layer for augmented reality, and no "
                    "picture of a data set"
                )
        return self

    def every_camera(self) -> dict[str, CameraConfig]:
        """Return the cameras by name, each pair's right one after its left one."""
        found: dict[str, CameraConfig] = {}
        for name, planned in self.cameras.items():
            found[name] = camera = planned.as_camera(self.modalities)
            if camera.stereo_baseline_m is not None:
                found[name + RIGHT] = camera.right_camera(camera.stereo_baseline_m)
        return found


def scene_name(scene: str) -> str:
    """Return the folder of a scene: its name, or that of its file."""
    return Path(scene).stem


def load_plan(path: Path) -> DatasetPlan:
    """Read a plan; its files are found from where it lies.

    Raises:
        ConfigError: one line ``file:line:col: key: reason`` for every problem.
    """
    tree = read_tree(path, "`scenes:` and `trajectory:` make a data set (docs/guides/datasets.md)")
    problems = list(tree.problems)
    plan = None
    if isinstance(tree.data, dict):
        try:
            plan = DatasetPlan.model_validate(tree.data)
        except ValidationError as exc:
            problems += explain(exc, tree, DatasetPlan)
    if plan is None or problems:
        raise ConfigError(written(problems))
    return _placed(plan, path.parent)


def _placed(plan: DatasetPlan, folder: Path) -> DatasetPlan:
    """Return the same with paths that hold from anywhere."""
    scenes = tuple(str((folder / s).resolve()) if Path(s).suffix else s for s in plan.scenes)
    changes: dict[str, Any] = {"scenes": scenes}
    if (recorded := plan.trajectory.recorded) is not None:
        there = recorded.model_copy(update={"file": (folder / recorded.file).resolve()})
        changes["trajectory"] = plan.trajectory.model_copy(update={"recorded": there})
    return plan.model_copy(update=changes)
