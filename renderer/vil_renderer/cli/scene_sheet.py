"""``vil-bridge scene sheet``: one scene in every modality, on one picture."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from vil_renderer.cli.options import Profile

if TYPE_CHECKING:
    from vil_bridge.core.geometry import Transform
    from vil_bridge.core.types import ImageArray, RenderedImage, WorldSnapshot
    from vil_renderer.embedded import EmbeddedRenderer

_STEP_NS: Final = 33_000_000
_COLUMNS: Final = 3
_BASELINE_M: Final = 0.32
_QUALITY: Final = 80
_FLOW_GAIN: Final = 1.0 / 6.0
_FORMATS: Final = (".jpg", ".png")


def sheet(
    scene: Annotated[
        str, typer.Argument(metavar="SCENE", help="Scene file (YAML), or a shipped scene.")
    ],
    out: Annotated[Path, typer.Option("--out", help="Picture to write: .jpg or .png.")] = Path(
        "out/sheet.jpg"
    ),
    at: Annotated[
        tuple[float, float, float],
        typer.Option("--at", help="Where the camera stands, world, metres."),
    ] = (
        -3.0,
        0.0,
        1.6,
    ),
    yaw_deg: Annotated[
        float, typer.Option("--yaw", help="Where it looks: degrees from east to north.")
    ] = 0.0,
    pitch_deg: Annotated[float, typer.Option("--pitch", help="Degrees downwards.")] = 5.0,
    profile: Profile = "high",
    baked: Annotated[
        bool, typer.Option("--baked", help="Light of all bounces; minutes, once.")
    ] = False,
) -> None:
    """Draw a scene with a drone and a walking human in every modality, side by side."""
    import cv2

    from vil_renderer.embedded import EmbeddedRenderer

    if out.suffix.lower() not in _FORMATS:
        raise typer.BadParameter(
            f"{out} is not a supported picture: give it the suffix .jpg or .png"
        )
    with EmbeddedRenderer(scene, profile, baked=baked) as renderer:
        picture = _contact_sheet(renderer, at, yaw_deg, pitch_deg)
    out.parent.mkdir(parents=True, exist_ok=True)
    if not cv2.imwrite(str(out), picture[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, _QUALITY]):
        raise typer.BadParameter(f"{out} cannot be written")
    typer.echo(f"wrote {out}")


def _contact_sheet(
    renderer: EmbeddedRenderer, at: tuple[float, float, float], yaw_deg: float, pitch_deg: float
) -> ImageArray:
    import numpy as np

    from vil_bridge.core.camera_model import CameraModel, Distortion, Effects, LensModel
    from vil_bridge.core.geometry import Transform
    from vil_bridge.core.types import Modality, View

    camera = CameraModel("sheet", 480, 360, math.radians(70.0))
    fisheye = CameraModel(
        "fisheye",
        480,
        360,
        1.0,
        (230.0, 230.0, 239.5, 179.5),
        Distortion(LensModel.EQUIDISTANT, (0.01, 0.0, 0.0, 0.0)),
    )
    moving = replace(camera, name="shutter", effects=Effects(shutter=1.0))
    ground_m = _ground_m(renderer, at)
    for step in (0, 1):  # flow is towards the picture before
        pose = _looking((at[0], at[1] + 0.02 * step, at[2]), yaw_deg + 0.6 * step, pitch_deg)
        views = [View(camera, m, pose, step * _STEP_NS) for m in Modality if m is not Modality.RGBA]
        views.append(View(camera, Modality.RGBA, pose, step * _STEP_NS, layer="actors"))
        views += [View(c, Modality.RGB, pose, step * _STEP_NS) for c in (fisheye, moving)]
        snapshot = _snapshot(at, yaw_deg, ground_m, step * _STEP_NS)
        pictures = renderer.render(views, snapshot)
    right = pose @ Transform.of((_BASELINE_M, 0.0, 0.0))
    (other,) = renderer.render([View(camera, Modality.RGB, right, _STEP_NS)], snapshot)
    cells = [_cell(image) for image in pictures]
    cells.append(_labelled(np.asarray(other.pixels), "rgb, right camera of a stereo pair"))
    return np.vstack([np.hstack(cells[i : i + _COLUMNS]) for i in range(0, len(cells), _COLUMNS)])


def _looking(p_m: tuple[float, float, float], yaw_deg: float, pitch_deg: float) -> Transform:
    """Optical axes of a camera that looks along a body's x; positive pitch looks down."""
    from vil_bridge.core.geometry import T_FLU_OPTICAL, Transform, q_from_euler_zyx

    return (
        Transform.of(p_m, q_from_euler_zyx(math.radians(yaw_deg), math.radians(pitch_deg), 0.0))
        @ T_FLU_OPTICAL
    )


def _ground_m(renderer: EmbeddedRenderer, at: tuple[float, float, float]) -> float:
    import numpy as np

    if renderer.rays is None:
        return 0.0
    below = float(renderer.rays.cast(np.array([at]), np.array([[0.0, 0.0, -1.0]])).distance_m[0])
    return at[2] - below if math.isfinite(below) else 0.0


def _snapshot(
    at: tuple[float, float, float], yaw_deg: float, ground_m: float, t_ns: int
) -> WorldSnapshot:
    """Return a drone ahead to the left and a human on the floor ahead to the right."""
    from vil_bridge.bodies.skeleton import place_of
    from vil_bridge.bodies.walking_human import WalkMotion
    from vil_bridge.core.geometry import Transform, q_from_euler_zyx
    from vil_bridge.core.types import ActorKind, ActorState, TrackingState, WorldSnapshot

    ahead = Transform.of(
        (at[0], at[1], ground_m), q_from_euler_zyx(math.radians(yaw_deg), 0.0, 0.0)
    )
    drone = ahead @ Transform.of(
        (1.6, 0.55, at[2] - ground_m - 0.1), q_from_euler_zyx(0.5, 0.1, 0.15)
    )
    human = WalkMotion("human").at(1_400_000_000 + t_ns).skeletons[0]
    placed = human.moved(Transform.of((-float(human.p_m[0, 0]), -float(human.p_m[0, 1]), 0.0)))
    turned = ahead @ Transform.of((3.2, -0.6, 0.0), q_from_euler_zyx(2.4, 0.0, 0.0))
    placed = placed.moved(turned)
    root = place_of(placed)
    return WorldSnapshot(
        t_ns,
        (
            ActorState(
                "drone",
                ActorKind.VEHICLE,
                TrackingState.TRACKED,
                0,
                drone,
                size_m=(0.35, 0.35, 0.12),
            ),
            ActorState("human", ActorKind.HUMAN, TrackingState.TRACKED, 0, root, placed),
        ),
    )


def _cell(image: RenderedImage) -> ImageArray:
    import numpy as np

    from vil_bridge.core.types import Modality
    from vil_renderer import colour_views as colours

    pixels: Any = image.pixels
    modality = image.view.modality
    if modality is Modality.GRAY:
        shown = np.repeat(pixels[..., None], 3, axis=2)
    elif modality is Modality.DEPTH:
        shown = colours.depth_to_grey(pixels)
    elif modality is Modality.DEPTH32:
        shown = colours.depth_to_grey(
            np.rint(np.minimum(pixels, 25.0) / 25.0 * 65535).astype(np.uint16)
        )
    elif modality is Modality.NORMALS:
        shown = colours.normals_to_colour(pixels)
    elif modality in (Modality.SEMANTIC, Modality.INSTANCE):
        shown = colours.ids_to_colour(pixels)
    elif modality is Modality.FLOW:
        shown = colours.flow_to_colour(pixels, image.valid, _FLOW_GAIN)
    elif modality is Modality.RGBA:
        shown = _over_checks(pixels)
    else:
        shown = pixels
    names = {Modality.DEPTH: "depth (16 bit, 100 m)", Modality.DEPTH32: "depth32 (white = 25 m)"}
    names |= {Modality.RGBA: "rgba, layer 'actors'"}
    plain = names.get(modality, str(modality))
    words = {"fisheye": "rgb, equidistant lens", "shutter": "rgb, motion blur"}.get(
        image.view.camera.name, plain
    )
    return _labelled(np.asarray(shown), words)


def _over_checks(rgba: Any) -> ImageArray:
    """Return a layer over a checkerboard, as image editors show transparency."""
    import numpy as np

    y, x = np.indices(rgba.shape[:2])
    checks = np.where((x // 12 + y // 12) % 2, 200, 235).astype(np.float32)[..., None]
    alpha = rgba[..., 3:].astype(np.float32) / 255.0
    made: ImageArray = np.rint(rgba[..., :3] + (1.0 - alpha) * checks).astype(np.uint8)
    return made


def _labelled(rgb: ImageArray, words: str) -> ImageArray:
    import cv2
    import numpy as np

    marked = np.ascontiguousarray(rgb).copy()
    marked[:24] //= 3
    cv2.putText(
        marked, words, (8, 17), cv2.FONT_HERSHEY_SIMPLEX, 0.5, (255, 255, 255), 1, cv2.LINE_AA
    )
    return marked
