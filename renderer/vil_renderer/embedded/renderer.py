"""The embedded renderer as a library: poses in, pictures and answers about the geometry out."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from vil_bridge.core.types import ImageArray, Landmark, Modality, RenderedImage, View, WorldSnapshot
from vil_renderer.embedded import queries
from vil_renderer.embedded.actors import Figure, figure_of, join
from vil_renderer.embedded.boxes import Boxes
from vil_renderer.embedded.context import describe, open_context
from vil_renderer.embedded.draw import Painter, Picture
from vil_renderer.embedded.first_scene import load_scene
from vil_renderer.embedded.modalities import depth16, gray8

__all__ = ["EmbeddedRenderer"]


class EmbeddedRenderer:
    """Draws one scene with the actors of a snapshot. Use it from the thread that made it.

    Attributes:
        info: renderer and version strings of OpenGL, its limits, and the scene's name.

    Raises:
        RendererError: no such scene, or no OpenGL; the message names what to install.
    """

    def __init__(self, scene: str = "hall") -> None:
        self._scene = load_scene(scene)
        self._ctx = open_context()
        with self._ctx:
            self._painter = Painter(self._ctx, self._scene)
            self.info: dict[str, Any] = {**describe(self._ctx), "scene": scene}
        self._shaped: tuple[WorldSnapshot, dict[str, Figure | None]] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the context and all its memory back."""
        self._ctx.release()

    def render(self, views: Sequence[View], snapshot: WorldSnapshot) -> tuple[RenderedImage, ...]:
        """Pictures of the due views, in their order.

        Views of one camera and pose (RGB and depth, say) are drawn once.
        """
        figures = self._figures(snapshot)
        groups: dict[tuple[object, ...], list[int]] = {}
        for index, view in enumerate(views):
            if view.due:
                groups.setdefault(_pass_key(view), []).append(index)
        pixels: dict[int, ImageArray] = {}
        with self._ctx:  # several renderers may live in one process
            for members in groups.values():
                first = views[members[0]]
                picture = self._painter.draw(first.camera, first.T_world_camera, _visible(figures, first))
                made = _read(picture, {views[i].modality for i in members})
                pixels.update({i: made[views[i].modality] for i in members})
        return tuple(RenderedImage(views[i], pixels[i]) for i in sorted(pixels))

    def collision(self, view: View, snapshot: WorldSnapshot | None = None) -> bool:
        """Whether a sphere of 0.15 m at the camera touches the scene or an actor that the view shows."""
        return queries.collides(view, self._solid(view, snapshot))

    def range_m(self, view: View, snapshot: WorldSnapshot | None = None) -> float | None:
        """Range finder along the camera's down axis, metres; None when nothing is hit within 20 m."""
        return queries.range_below_m(view, self._solid(view, snapshot))

    def landmarks(self, view: View, snapshot: WorldSnapshot | None = None) -> tuple[Landmark, ...]:
        """The IR beacons that the camera sees."""
        return queries.landmarks_in_view(view, self._scene, self._solid(view, snapshot))

    def _solid(self, view: View, snapshot: WorldSnapshot | None) -> Boxes:
        if snapshot is None:
            return self._scene.solid
        return Boxes.join((self._scene.solid, _visible(self._figures(snapshot), view).boxes))

    def _figures(self, snapshot: WorldSnapshot) -> dict[str, Figure | None]:
        """Shapes of all actors; kept, since the pictures and the queries of one request ask for the same."""
        if self._shaped is None or self._shaped[0] is not snapshot:
            self._shaped = snapshot, {actor.name: figure_of(actor, snapshot.t_ns) for actor in snapshot.actors}
        return self._shaped[1]


def _visible(figures: dict[str, Figure | None], view: View) -> Figure:
    return join([figure for name, figure in figures.items() if figure is not None and name not in view.hide])


def _pass_key(view: View) -> tuple[object, ...]:
    camera, T = view.camera, view.T_world_camera
    model = (camera.width_px, camera.height_px, camera.fov_y_rad)
    return (*model, T.p_m.tobytes(), T.q_xyzw.tobytes(), frozenset(view.hide))


def _read(picture: Picture, modalities: set[Modality]) -> dict[Modality, ImageArray]:
    made: dict[Modality, ImageArray] = {}
    if modalities & {Modality.RGB, Modality.GRAY}:
        rgb = picture.rgb()
        made[Modality.RGB] = rgb
        if Modality.GRAY in modalities:
            made[Modality.GRAY] = gray8(rgb)
    if Modality.DEPTH in modalities:
        made[Modality.DEPTH] = depth16(picture.z_m())
    return made
