"""Share of the shipped humans that a person detector finds, in every scene, and of people that it
finds in empty ones.

The detector is MediaPipe's, which brings its model in its wheel. It runs under the interpreter that
``VIL_BENCH_PYTHON`` names, since it pins packages of its own; else this one's is tried.
"""

from __future__ import annotations

import json
import logging
import math
import os
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from vil_adapters.motions.walking_human import WalkMotion
from vil_bridge.core.geometry import Transform, q_from_euler_zyx
from vil_bridge.core.skeleton import place_of
from vil_bridge.core.types import (
    ActorKind,
    ActorState,
    CameraModel,
    FloatArray,
    Modality,
    SkeletonFrame,
    TrackingState,
    View,
    WorldSnapshot,
)
from vil_bridge.pipeline.camera import T_FLU_OPTICAL
from vil_bridge.tools.bench.people_real import (
    Box,
    RealShot,
    alone_rows,
    far_rows,
    found_one,
    inside,
    store_empty,
    store_people,
)
from vil_bridge.tools.bench.render.rivals import INTERPRETER_VARIABLE
from vil_bridge.tools.bench.report import Row
from vil_renderer.embedded import EmbeddedRenderer, load_scene
from vil_renderer.embedded.actors.people.builds import BUILDS
from vil_renderer.embedded.geometry.ray_world import RayWorld
from vil_renderer.embedded.scene import Scene
from vil_renderer.embedded.scenes import SCENES

logger = logging.getLogger(__name__)

_SIZE_PX: Final = (1280, 720)
_FOV_X_RAD: Final = math.radians(70.0)
_FOV_Y_RAD: Final = 2.0 * math.atan(math.tan(0.5 * _FOV_X_RAD) * _SIZE_PX[1] / _SIZE_PX[0])
_CAMERA: Final = CameraModel("observer", *_SIZE_PX, _FOV_Y_RAD)
_DIRECTIONS: Final = 8
_NEAR_M: Final = (2.0, 5.0)
_FAR_M: Final = (5.0, 10.0)
_EYE_M: Final = 1.6
_HEIGHTS_M: Final = (0.15, 0.6, 1.1, 1.6)
_HALF_M: Final = 0.25
_FLOOR_SLACK_M: Final = 0.3
_LEVEL_M: Final = 0.1
_SPACE_M: Final = 0.5
_HEADROOM_M: Final = 2.2
_BEHIND_M: Final = 0.05
_TRIES: Final = 2000
_TIMEOUT_S: Final = 1800.0
_WALK_RATE: Final = 0.19
_SEED: Final = 24
_CONFIDENCES: Final = ("0.5", "0.7")
"""Thresholds of the detector: its default, and that of the rows with ``@0.7``."""
Marks: TypeAlias = dict[str, FloatArray]
"""Landmarks in pixels (n, 2) by picture."""


@dataclass(frozen=True, slots=True, eq=False)
class PersonShot:
    """A picture with a person, or without.

    Attributes:
        camera: its pose. person: None = an empty place.
        distance_m: from the camera to the place.
        box_px: left, top, right, bottom of the person's joints in the picture.
    """

    name: str
    camera: Transform
    person: ActorState | None
    distance_m: float
    box_px: Box

    @property
    def kind(self) -> str:
        """Return ``near``, ``far`` or ``empty``."""
        return self.name.split("-")[0]


class RealFound(NamedTuple):
    """Real pictures with people and without, and the landmarks found in each by threshold."""

    people: tuple[RealShot, ...]
    empty: tuple[RealShot, ...]
    marks: dict[str, Marks]


def bench_people() -> list[Row]:
    """Draw every human in every scene and ask the detector; about ten minutes on two quiet cores.

    Raises:
        ConfigError: a package with real pictures cannot be had.
        RendererError: no OpenGL, or no Embree.
    """
    shots, found = _asked()
    real = RealFound((), (), {}) if found is None else _asked_of_real()
    rows = []
    for confidence in _CONFIDENCES:
        suffix = "" if confidence == _CONFIDENCES[0] else f"@{confidence}"
        marks = None if found is None else found[confidence]
        rows += [
            replace(row, name=row.name + suffix) for row in _rows(shots, marks, real, confidence)
        ]
    return rows


def _rows(
    shots: list[PersonShot], found: Marks | None, real: RealFound, confidence: str
) -> list[Row]:
    far = [s for s in shots if s.kind == "far"]
    rows = [
        _share("detected_share_2_5_m", [s for s in shots if s.kind == "near"], found),
        _share("detected_share_5_10_m", far, found),
        _share("false_share", [s for s in shots if s.kind == "empty"], found),
        *_real_rows(far, found, real, real.marks.get(confidence, {})),
    ]
    for which in (*BUILDS, *SCENES):
        near = [s for s in shots if s.kind == "near" and which in s.name.split("-")]
        rows.append(_share(f"detected_share_2_5_m/{which}", near, found))
    return rows


def _asked() -> tuple[list[PersonShot], dict[str, Marks] | None]:
    """Return what all pictures show, and the landmarks in each by threshold.

    None when there is no detector.

    Pictures of one scene are stored at a time: all would be gigabytes.
    """
    shots: list[PersonShot] = []
    found: dict[str, Marks] = {confidence: {} for confidence in _CONFIDENCES}
    for scene in (None, *SCENES):  # first without pictures, to learn whether the detector runs
        with tempfile.TemporaryDirectory() as folder:
            shots += () if scene is None else _draw(load_scene(scene), Path(folder))
            marks = _detect(Path(folder))
        if marks is None:
            return shots, None
        for confidence in _CONFIDENCES:
            found[confidence] |= marks[confidence]
    return shots, found


def _asked_of_real() -> RealFound:
    """Return the real pictures and the landmarks in each.

    Raises ConfigError: a package cannot be had.
    """
    distances_m = [_distance_m(*_FAR_M, step) for step in range(_DIRECTIONS)]
    with tempfile.TemporaryDirectory() as name:
        people = store_people(Path(name), distances_m, _SIZE_PX, _CAMERA.f_px)
        empty = store_empty(Path(name), _SIZE_PX)
        return RealFound(tuple(people), tuple(empty), _detect(Path(name)) or {})


def _real_rows(
    ours: list[PersonShot], found: Marks | None, pictures: RealFound, marks: Marks
) -> list[Row]:
    """Return the rows of real pictures, and of ours from 5 to 10 m next to them."""
    if found is None or not marks:  # the detector is not there, or failed on the real pictures
        return [
            *far_rows({}, {}, 0),
            *alone_rows({}, {}),
            Row("false_share_real", None, "ratio", 0),
        ]
    people = pictures.people
    real = [(shot.distance_m, found_one(shot, marks[shot.name])) for shot in people]
    alone = _by_distance(item for item, shot in zip(real, people, strict=True) if shot.alone)
    mine = _by_distance((shot.distance_m, hit(shot, found[shot.name])) for shot in ours)
    rows = far_rows(mine, _by_distance(real), len({shot.person for shot in people})) + alone_rows(
        mine, alone
    )
    false = [found_one(shot, marks[shot.name]) for shot in pictures.empty]
    return [*rows, Row("false_share_real", float(np.mean(false)), "ratio", len(false))]


def _by_distance(found: Iterable[tuple[float, bool]]) -> dict[float, FloatArray]:
    """Return what was found (1) and was not (0) by distance."""
    by: dict[float, list[float]] = {}
    for distance_m, one in found:
        by.setdefault(distance_m, []).append(float(one))
    return {distance_m: np.array(ones) for distance_m, ones in by.items()}


def _share(name: str, shots: list[PersonShot], found: Marks | None) -> Row:
    """Return the share of pictures in which a person is found, where one is."""
    if found is None or not shots:
        return Row(name, None, "ratio", 0)
    return Row(name, float(np.mean([hit(s, found[s.name]) for s in shots])), "ratio", len(shots))


def hit(shot: PersonShot, landmarks_px: FloatArray) -> bool:
    """Return True if landmarks (n, 2) are those of the shot's person.

    Of an empty shot, if there are any.
    """
    if not len(landmarks_px) or shot.person is None:
        return bool(len(landmarks_px))
    return inside(shot.box_px, landmarks_px)


def _detect(folder: Path) -> dict[str, Marks] | None:
    """Return the landmarks found in each picture by threshold.

    None when there is no detector, which is logged.
    """
    python = os.environ.get(INTERPRETER_VARIABLE) or sys.executable
    command = [python, str(Path(__file__).with_name("people_child.py")), str(folder), *_CONFIDENCES]
    try:
        done = subprocess.run(  # noqa: S603
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True
        )
        found = json.loads(done.stdout.splitlines()[-1])
        return {confidence: _arrays(marks) for confidence, marks in found.items()}
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as exc:
        said = str(getattr(exc, "stderr", None) or exc).strip().splitlines()
        logger.warning("the person detector does not run: %s", said[-1] if said else repr(exc))
        return None


def _arrays(marks: dict[str, list[list[float]]]) -> Marks:
    return {name: np.array(each, np.float64).reshape(-1, 2) for name, each in marks.items()}


def _draw(scene: Scene, folder: Path) -> Iterator[PersonShot]:
    """Draw and store all pictures of a scene, and yield what they show."""
    with EmbeddedRenderer(scene, "high") as renderer:
        for shot in shots_of(scene):
            snapshot = WorldSnapshot(0, () if shot.person is None else (shot.person,))
            (picture,) = renderer.render([View(_CAMERA, Modality.RGB, shot.camera, 0)], snapshot)
            np.save(folder / f"{shot.name}.npy", picture.pixels)
            yield shot


def shots_of(scene: Scene) -> Iterator[PersonShot]:
    """Yield every human from eight directions near and far, and the same places without one.

    A place is one that shows the person from head to feet, on a floor as high as the camera's.
    """
    world, rng = RayWorld(scene), np.random.default_rng([_SEED, zlib.crc32(scene.name.encode())])
    for i, human in enumerate(BUILDS):
        order = rng.permutation(_DIRECTIONS)
        for k in range(_DIRECTIONS):
            for kind, (low_m, high_m) in (("near", _NEAR_M), ("far", _FAR_M)):
                distance_m = _distance_m(low_m, high_m, int(order[k]))
                pair = _free_pair(world, scene, distance_m, rng)
                if pair is None:
                    continue
                camera, spot = pair
                away = math.atan2(*(camera.p_m - spot)[[1, 0]])
                person = _walker(
                    human, spot, away + 2.0 * math.pi * k / _DIRECTIONS, _WALK_RATE * (i + 3 * k)
                )
                yield PersonShot(
                    f"{kind}-{scene.name}-{human}-{k}",
                    camera,
                    person,
                    distance_m,
                    _box(camera, person),
                )
                if kind == "near":
                    yield PersonShot(
                        f"empty-{scene.name}-{human}-{k}",
                        camera,
                        None,
                        distance_m,
                        (0.0, 0.0, 0.0, 0.0),
                    )


def _distance_m(low_m: float, high_m: float, step: int) -> float:
    """Return one of eight distances between two."""
    return low_m + (high_m - low_m) * step / (_DIRECTIONS - 1)


def _free_pair(
    world: RayWorld, scene: Scene, distance_m: float, rng: np.random.Generator
) -> tuple[Transform, FloatArray] | None:
    """Return a camera's pose and a place on the floor that it sees from the head to the feet.

    None if none is found.
    """
    centres = np.array([thing.world_from_asset[:2, 3] for thing in scene.objects])
    low, high = np.quantile(centres, 0.05, axis=0) - 1.0, np.quantile(centres, 0.95, axis=0) + 1.0
    for _ in range(_TRIES):
        yaw = rng.uniform(-math.pi, math.pi)
        places = np.zeros((2, 3))
        places[:, :2] = rng.uniform(low, high) - np.outer(
            (0.0, distance_m), (math.cos(yaw), math.sin(yaw))
        )
        floors_m = [floor for place in places if (floor := _floor_m(world, place)) is not None]
        if len(floors_m) < 2:
            continue
        places[:, 2] = np.add(floors_m, (0.0, _EYE_M))
        spot, eye = places
        aside = np.array([-math.sin(yaw), math.cos(yaw), 0.0])
        targets = np.array(
            [spot + w * aside + (0.0, 0.0, h) for h in _HEIGHTS_M for w in (-_HALF_M, 0.0, _HALF_M)]
        )
        gap = targets - eye
        reach = np.linalg.norm(gap, axis=1)
        seen = world.cast(np.tile(eye, (len(gap), 1)), gap / reach[:, None]).distance_m
        if (seen > reach + _BEHIND_M).all():
            pitch = math.atan2(_EYE_M - 0.95, distance_m)
            return Transform.of(tuple(eye), q_from_euler_zyx(yaw, pitch, 0.0)) @ T_FLU_OPTICAL, spot
    return None


def _floor_m(world: RayWorld, place: FloatArray) -> float | None:
    """Return the height of a level floor about a place (3,), None where it is not level or
    something stands near.
    """
    turn = np.linspace(0.0, 2.0 * np.pi, 9)[:-1]
    around = np.stack((np.cos(turn), np.sin(turn), np.zeros(8)), axis=-1)
    above = place + 0.35 * around + (0.0, 0.0, _HEADROOM_M)
    floor = _HEADROOM_M - world.cast(above, np.tile((0.0, 0.0, -1.0), (8, 1))).distance_m
    sides = world.cast(np.tile(place + np.array([0.0, 0.0, 1.0]), (8, 1)), around).distance_m
    level = (
        (np.abs(floor) < _FLOOR_SLACK_M).all()
        and np.ptp(floor) < _LEVEL_M
        and (sides > _SPACE_M).all()
    )
    return float(np.median(floor)) if level else None


def _walker(human: str, spot: FloatArray, yaw_rad: float, t_s: float) -> ActorState:
    """Return a human who walks over a place on the floor (3,) in a direction."""
    skeleton = WalkMotion(human).at(round(1e9 * t_s)).skeletons[0]
    forward = (
        skeleton.p_m[skeleton.model.bones.index("LThigh")]
        - skeleton.p_m[skeleton.model.bones.index("RThigh")]
    )
    now_rad = math.atan2(-forward[0], forward[1])
    turn = Transform.of((0.0, 0.0, 0.0), q_from_euler_zyx(yaw_rad - now_rad, 0.0, 0.0))
    placed: SkeletonFrame = skeleton.moved(turn)
    placed = placed.moved(Transform.of((*(spot - placed.p_m[0])[:2], spot[2])))
    return ActorState(
        human, ActorKind.HUMAN, TrackingState.TRACKED, 0, place_of(placed), placed, human
    )


def _box(camera: Transform, person: ActorState) -> Box:
    """Return left, top, right and bottom of the person's joints in the picture, pixels."""
    assert person.skeleton is not None
    x, y, z = camera.inverse().apply(person.skeleton.p_m).T
    u = 0.5 * _CAMERA.width_px + _CAMERA.f_px * x / z
    v = 0.5 * _CAMERA.height_px + _CAMERA.f_px * y / z
    return float(u.min()), float(v.min()), float(u.max()), float(v.max())
