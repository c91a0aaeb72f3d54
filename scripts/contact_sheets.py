"""Draw the contact sheets of the documentation: camera presets, weather, scenes, vehicles.

OpenGL alone is needed.

python scripts/contact_sheets.py docs/figures/sheets            # all
python scripts/contact_sheets.py docs/figures/sheets cameras    # one
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import cv2
import numpy as np
from PIL import Image

from vil_bridge.config.camera import CameraConfig
from vil_bridge.config.camera_presets import CAMERA_PRESETS
from vil_bridge.core.geometry import Transform, q_from_euler_zyx, q_mul, q_to_matrix
from vil_bridge.core.types import (
    ActorKind,
    ActorState,
    CameraModel,
    FloatArray,
    ImageArray,
    Lighting,
    Modality,
    TrackingState,
    View,
    WorldSnapshot,
)
from vil_bridge.core.weather import Weather
from vil_bridge.optics.pixel_formats import FORMAT_OF
from vil_bridge.pipeline.sensor.stage import SensorStage
from vil_renderer.embedded import EmbeddedRenderer, scene_names
from vil_renderer.embedded.actors.prefabs import VEHICLES, built_in
from vil_renderer.embedded.actors.rigid import RigidModel

_OPTICAL: Final = np.array((-0.5, 0.5, -0.5, 0.5))
"""Optical axes of a camera that looks along the x axis of its carrier."""
_LARGEST_BYTES: Final = 300_000
_CELL: Final = (480, 360)
_SETTLED: Final = 30
_STEP_NS: Final = 50_000_000
"""Pictures and their interval in which exposure and white balance settle."""
_FARTHEST_M: Final = 10.0

_Pose = tuple[tuple[float, float, float], float, float]
"""Place in the world, metres; yaw from east to north and pitch downwards, degrees."""

SCENE_VIEWS: Final[Mapping[str, _Pose]] = {
    "alphapilot": ((-5.0, 19.5, 4.0), -165.0, 3.0),
    "blocks": ((-4.0, -6.0, 2.0), 80.0, 0.0),
    "course": ((-19.0, -13.5, 2.4), 15.0, 5.0),
    "empty": ((-3.0, 0.0, 1.6), 0.0, 5.0),
    "forest": ((-20.0, -8.0, 3.0), 30.0, -5.0),
    "garage": ((-13.0, -5.2, 1.6), 8.0, 4.0),
    "hall": ((-7.0, -1.2, 1.7), 12.0, 4.0),
    "lab": ((-2.6, -1.3, 1.5), 25.0, 8.0),
    "street": ((-18.0, 0.4, 1.8), -6.0, 0.0),
    "yard": ((-6.0, -4.0, 1.7), 60.0, 5.0),
}
_KINDS: Final = ("rain", "snow", "fog", "dust", "leaves")


def cameras(path: Path) -> None:
    """Draw one view of the hall as rendered and through each camera preset, with a part of each
    at full size.
    """
    pose = _pose((-4.2, -2.2, 1.5), 28.0, 2.0)
    with EmbeddedRenderer("hall", "high") as renderer:
        plain = CameraModel("plain", 752, 480, math.radians(55.0))
        cells = [_with_part(_rgb(renderer, plain, pose), "as rendered")]
        cells += [_with_part(_seen(renderer, name, pose), name) for name in sorted(CAMERA_PRESETS)]
    _save(_tiled(cells, 2), path)


def weather_outdoors(path: Path) -> None:
    """Draw each kind of weather at 0.3 and at 1 in the yard."""
    _weather("yard", SCENE_VIEWS["yard"], path)


def weather_indoors(path: Path) -> None:
    """Draw each kind of weather at 0.3 and at 1 in the hall."""
    _weather("hall", SCENE_VIEWS["hall"], path)


def scenes(path: Path, *, baked: bool = False) -> None:
    """Draw one view of every scene."""
    cells = []
    for name in scene_names():
        place, yaw_deg, pitch_deg = SCENE_VIEWS[name]
        with EmbeddedRenderer(name, "high", baked=baked) as renderer:
            camera = CameraModel(name, *_CELL, math.radians(70.0))
            cells.append(_labelled(_rgb(renderer, camera, _pose(place, yaw_deg, pitch_deg)), name))
    _save(_tiled(cells, 3), path)


def scenes_baked(path: Path) -> None:
    """Draw the same views with the light of all bounces, which takes minutes the first time."""
    scenes(path, baked=True)


def vehicles(path: Path) -> None:
    """Draw every model of a vehicle in its own size, from ahead and from behind."""
    cells = []
    with EmbeddedRenderer("hall", "high") as renderer:
        for name in VEHICLES:
            prefab = built_in(name, ActorKind.VEHICLE)[1]
            x, y, z = RigidModel(prefab).size_m.tolist()
            stands = prefab.fit == "standing"
            place = Transform.of((0.0, 0.0, 0.0 if stands else 1.0))
            actor = ActorState(
                name, ActorKind.VEHICLE, TrackingState.TRACKED, 0, place, None, name, (x, y, z)
            )
            middle = np.array((0.0, 0.0, 0.5 * z if stands else 1.0))
            for yaw_deg in (215.0, 55.0):
                pose = _pose((0.0, 0.0, 0.0), yaw_deg, 20.0)
                away = q_to_matrix(pose.q_xyzw)[:, 2] * 1.15 * math.hypot(x, y)
                camera = CameraModel(name, *_CELL, math.radians(50.0))
                view = View(camera, Modality.RGB, _pose(middle - away, yaw_deg, 20.0), 0)
                (image,) = renderer.render([view], WorldSnapshot(0, (actor,)))
                cells.append(_labelled(image.pixels.copy(), f"{name} {x:.2f} x {y:.2f} x {z:.2f}"))
    _save(_tiled(cells, 4), path)


SHEETS: Final[Mapping[str, Callable[[Path], None]]] = {
    "cameras": cameras,
    "weather_outdoors": weather_outdoors,
    "weather_indoors": weather_indoors,
    "scenes": scenes,
    "scenes_baked": scenes_baked,
    "vehicles": vehicles,
}


def _weather(scene: str, view: _Pose, path: Path) -> None:
    """Draw a scene in fine weather, then each kind of weather at 0.3 and at 1, with what of it
    lies on the ground.
    """
    lies = {"rain": "ground_wetness", "snow": "ground_snow", "leaves": "ground_leaves"}
    pose, cells = _pose(*view), []
    with EmbeddedRenderer(scene, "high") as renderer:
        for number, (kind, amount) in enumerate(
            [("fine", 0.0), *((k, a) for k in _KINDS for a in (0.3, 1.0))]
        ):
            keys: dict[str, Any] = {kind: amount} | ({lies[kind]: amount} if kind in lies else {})
            weather = Weather() if kind == "fine" else Weather(**keys)
            camera = CameraModel(f"{scene}{number}", *_CELL, math.radians(65.0))
            cells.append(
                _labelled(
                    _rgb(renderer, camera, pose, weather),
                    kind if not amount else f"{kind} {amount:g}",
                )
            )
    _save(_tiled(cells, 3), path)


def _seen(renderer: EmbeddedRenderer, preset: str, pose: Transform) -> ImageArray:
    """Return a picture through a preset, once exposure and white balance have settled."""
    config = CameraConfig.model_validate({"renderer": "drawn", "preset": preset})
    model = config.camera_model(preset)
    stage = SensorStage(model, config.image_sensor(), config.depth_sensor())
    depth = config.depth_sensor() is not None
    modality = Modality.DEPTH32 if depth else config.modalities[0]
    views = [View(model, m, pose, 0) for m in (modality, Modality.GRAY)]
    drawn, gray = (image.pixels for image in renderer.render(views, WorldSnapshot(0, ())))
    seen = drawn
    for step in range(_SETTLED):
        seen = stage.picture(modality, drawn, step * _STEP_NS, lambda: gray)
    return _coloured(seen) if depth else np.dstack([seen] * 3) if seen.ndim == 2 else seen


def _coloured(depth_m: ImageArray) -> ImageArray:
    """Return depths as colours: red is near, blue is far, black is not measured."""
    share = np.clip(1.0 - depth_m / _FARTHEST_M, 0.0, 1.0)
    made = cv2.applyColorMap(np.rint(255.0 * share).astype(np.uint8), cv2.COLORMAP_TURBO)[
        ..., ::-1
    ].copy()
    made[depth_m >= FORMAT_OF[Modality.DEPTH32].empty] = 0
    return np.asarray(made, np.uint8)


def _rgb(
    renderer: EmbeddedRenderer, camera: CameraModel, pose: Transform, weather: Weather | None = None
) -> ImageArray:
    snapshot = WorldSnapshot(0, (), None if weather is None else Lighting(weather=weather))
    (image,) = renderer.render([View(camera, Modality.RGB, pose, 0)], snapshot)
    return image.pixels.copy()


def _with_part(picture: ImageArray, text: str) -> ImageArray:
    """Return the whole picture in a cell, next to its middle and its right edge in their own
    pixels.
    """
    h, w = picture.shape[:2]
    wide, high = _CELL[0] // 2, _CELL[1]
    whole = (
        cv2.resize(picture, _CELL, interpolation=cv2.INTER_AREA)
        if w / h < 1.5
        else _letterboxed(picture)
    )
    parts = [picture[(h - high) // 2 :, (w - wide) // 2 :][:high, :wide]]
    return np.hstack([_labelled(np.asarray(whole), text), *parts])


def _letterboxed(picture: ImageArray) -> ImageArray:
    h = round(_CELL[0] * picture.shape[0] / picture.shape[1])
    made = np.zeros((_CELL[1], _CELL[0], 3), np.uint8)
    top = (_CELL[1] - h) // 2
    made[top : top + h] = cv2.resize(picture, (_CELL[0], h), interpolation=cv2.INTER_AREA)
    return made


def _labelled(picture: ImageArray, text: str) -> ImageArray:
    cv2.rectangle(picture, (0, 0), (12 + 9 * len(text), 22), (0, 0, 0), -1)
    cv2.putText(
        picture, text, (6, 16), cv2.FONT_HERSHEY_SIMPLEX, 0.5, (255, 255, 255), 1, cv2.LINE_AA
    )
    return picture


def _tiled(cells: Sequence[ImageArray], columns: int) -> ImageArray:
    cells = [*cells, *[np.zeros_like(cells[0])] * (-len(cells) % columns)]
    return np.vstack([np.hstack(cells[i : i + columns]) for i in range(0, len(cells), columns)])


def _pose(p_m: Sequence[float] | FloatArray, yaw_deg: float, pitch_deg: float) -> Transform:
    carrier = q_from_euler_zyx(math.radians(yaw_deg), math.radians(pitch_deg), 0.0)
    return Transform.of(tuple(p_m), q_mul(carrier, _OPTICAL))


def _save(pixels: ImageArray, path: Path) -> None:
    """Write a picture as WebP, as good as its largest size allows."""
    for quality in range(90, 20, -5):
        Image.fromarray(pixels).save(path, quality=quality, method=6)
        if path.stat().st_size < _LARGEST_BYTES:
            return
    sys.exit(f"{path} is too large")


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    for name in sys.argv[2:] or SHEETS:
        SHEETS[name](folder / f"{name}.webp")
