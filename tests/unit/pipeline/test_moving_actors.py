"""A human and a vehicle cross while a picture is late: their pixels go where they are by now.

The ground is filled.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import cv2
import numpy as np
import pytest

from tests.support.opengl import drawing
from vil_bridge.bodies.walking_human import WalkMotion
from vil_bridge.config.camera import CameraConfig
from vil_bridge.core.bridge_time import bridge_clock
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S
from vil_bridge.core.geometry import Transform, q_from_euler_zyx
from vil_bridge.core.types import (
    ActorKind,
    BoolArray,
    CameraModel,
    FloatArray,
    ImageArray,
    Modality,
    RenderedFrame,
    RenderedImage,
    RenderRequest,
    SkeletonFrame,
    SourceFrame,
    View,
    WorldSnapshot,
)
from vil_bridge.pipeline.camera import BridgeCamera
from vil_bridge.pipeline.compensation import CameraFrame, Compensation, WarpedFrame
from vil_bridge.pipeline.warp.depth_reprojection import RenderMap, render_map
from vil_bridge.pipeline.warp.moving_actors import MovingActor, MovingScene, SeenActors, Sight
from vil_bridge.pipeline.warp.rolling_shutter import ShutterPoses
from vil_bridge.pipeline.warp.view_geometry import ViewGeometry
from vil_bridge.world.actors import Actor, TrackingLimits
from vil_bridge.world.world import World
from vil_renderer.embedded import EmbeddedRenderer

DELAY_NS = 56 * NS_PER_MS
AHEAD_NS = 3 * NS_PER_MS
START_NS = 20 * NS_PER_S
NOW_NS = START_NS + NS_PER_S
MODALITIES = (Modality.RGB, Modality.DEPTH32, Modality.INSTANCE, Modality.FLOW)
WALK = WalkMotion(center_m=(3.5, 0.0), radius_m=1.2, speed_mps=1.3)


def drone(t_ns: int) -> Transform:
    t_s = 1e-9 * (t_ns - NOW_NS)
    return Transform.of(
        (-1.0 + 0.8 * t_s, -0.3 + 0.6 * t_s, 1.3), q_from_euler_zyx(0.35 * t_s, 0.1 * t_s, 0.0)
    )


def cart(t_ns: int) -> Transform:
    t_s = 1e-9 * (t_ns - NOW_NS)
    return Transform.of((3.2, 1.2 - 2.0 * t_s, 0.9), q_from_euler_zyx(-1.57 + 1.5 * t_s, 0.0, 0.0))


def skeleton(t_ns: int) -> SkeletonFrame:
    return WALK.at(t_ns).skeletons[0]


class Scene(NamedTuple):
    """A late picture after its warp, and the picture rendered for the instant shown."""

    camera: BridgeCamera
    shown: WarpedFrame
    rendered: dict[Modality, RenderedImage]
    truth: dict[Modality, RenderedImage]
    ids: dict[str, int]

    def source_px(self) -> FloatArray:
        """Source of each shown pixel in the rendered picture, shape (h, w, 2)."""
        view = self.rendered[Modality.RGB].view
        v, u = np.mgrid[0 : view.camera.height_px, 0 : view.camera.width_px].astype(np.float32)
        planes = [
            self.shown.picture(RenderedImage(view, plane), compensated=True) for plane in (u, v)
        ]
        return np.stack(planes, axis=-1).astype(float)

    def errors_px(self, where: BoolArray) -> FloatArray:
        """Distances of where pixels come from and where the renderer says that their points
        were.
        """
        flow = self.truth[Modality.FLOW]
        assert flow.valid is not None
        v, u = np.mgrid[0 : where.shape[0], 0 : where.shape[1]]
        came_from = np.stack((u, v), axis=-1) - flow.pixels
        away = np.linalg.norm(self.source_px() - came_from, axis=-1)
        return np.asarray(away[where & flow.valid])

    def of(self, name: str) -> BoolArray:
        return np.asarray(self.truth[Modality.INSTANCE].pixels == self.ids[name])

    def picture(self, modality: Modality) -> ImageArray:
        return self.shown.picture(self.rendered[modality], compensated=True)


def world_until(world: World, first_ns: int, last_ns: int) -> None:
    for t_ns in range(first_ns, last_ns + 1, 10 * NS_PER_MS):
        poses = drone(t_ns), cart(t_ns)
        p_m, q = np.array([T.p_m for T in poses]), np.array([T.q_xyzw for T in poses])
        tracked = np.ones(2, np.bool_)
        world.ingest(
            SourceFrame(
                "mocap",
                0,
                None,
                t_ns,
                ("drone", "cart"),
                p_m,
                q,
                tracked,
                skeletons=(skeleton(t_ns),),
            )
        )


def true_snapshot(world: World, t_ns: int) -> WorldSnapshot:
    """All actors where they really are."""
    exact = World({"mocap": Transform.identity()}, world.actors)
    for k in (-1, 0):
        world_until(exact, t_ns + 10 * k * NS_PER_MS, t_ns + 10 * k * NS_PER_MS)
    return exact.scene(t_ns)


@pytest.fixture(scope="module")
def hall() -> Iterator[EmbeddedRenderer]:
    with drawing("hall") as renderer:
        yield renderer


def late_picture(
    hall: EmbeddedRenderer, row_ns: int = 0, delay_ns: int = DELAY_NS, **camera: Any
) -> Scene:
    """Film the scene some time before the instant shown, and again at that instant, or that of a
    row.
    """
    limits = TrackingLimits(30 * NS_PER_MS, 500 * NS_PER_MS, 2 * NS_PER_S)
    actors = [
        Actor("drone", ActorKind.VEHICLE, "mocap", "drone", limits=limits),
        Actor("cart", ActorKind.VEHICLE, "mocap", "cart", size_m=(0.6, 0.6, 0.25), limits=limits),
        Actor("visitor", ActorKind.HUMAN, "mocap", "Actor", limits=limits),
    ]
    world = World({"mocap": Transform.identity()}, actors)
    keys: dict[str, Any] = {
        "modalities": MODALITIES,
        "compensate": "reproject",
        "moving_actors": True,
    }
    model = CameraModel("front", 640, 480, math.radians(60.0))
    made = BridgeCamera(model, "drone", Transform.of((0.1, 0, 0)), 50.0, **(keys | camera))
    shown_ns = NOW_NS + AHEAD_NS
    render_ns = shown_ns - delay_ns
    clock = bridge_clock()
    try:
        clock.stand_at(render_ns)
        world_until(world, START_NS, render_ns)
        images, request = filmed(
            hall, made, made.pose_at(world, render_ns).T_world_camera, world.scene(render_ns)
        )
        clock.stand_at(NOW_NS)
        world_until(world, render_ns + 10 * NS_PER_MS, NOW_NS)
        frame = CameraFrame(RenderedFrame(request, NOW_NS, images), images, None)
        shown = Compensation(made, world).frame(request.frame_id, frame, shown_ns)
        t_ns = shown_ns + row_ns
        truth, _ = filmed(hall, made, made.mounted(drone(t_ns)), true_snapshot(world, t_ns))
    finally:
        clock.real()
    rendered, true = ({image.view.modality: image for image in taken} for taken in (images, truth))
    return Scene(made, shown, rendered, true, dict(hall.instances))


def filmed(
    hall: EmbeddedRenderer, made: BridgeCamera, T_world_camera: Transform, snapshot: WorldSnapshot
) -> tuple[tuple[RenderedImage, ...], RenderRequest]:
    modalities = (*made.modalities, Modality.FLOW)
    views = tuple(
        View(made.geometry.rendered, m, T_world_camera, snapshot.t_ns, hide=("drone",))
        for m in dict.fromkeys(modalities)
    )
    return hall.render(views, snapshot), RenderRequest(
        snapshot.t_ns, snapshot.t_ns, views, snapshot
    )


@functools.cache
def crossing(hall: EmbeddedRenderer, moving_actors: bool = True) -> Scene:
    return late_picture(hall, moving_actors=moving_actors)


@pytest.mark.gl
@pytest.mark.parametrize("actor", ["visitor", "cart"])
def test_who_crosses_is_shown_where_he_is_by_now(hall: EmbeddedRenderer, actor: str) -> None:
    moved, still = crossing(hall), crossing(hall, moving_actors=False)
    where = moved.of(actor)
    assert where.sum() > 500
    assert np.median(moved.errors_px(where)) < 0.3
    assert np.median(still.errors_px(where)) > 5.0, "as if the actor had stood still"
    told = moved.shown.header()
    assert told["moved_actors"] == ["cart", "visitor"] and told["fallback"] is None


@pytest.mark.gl
def test_who_crosses_stays_in_place_while_the_renderer_stalls(hall: EmbeddedRenderer) -> None:
    scene = late_picture(hall, delay_ns=253 * NS_PER_MS)
    medians_px = [np.median(scene.errors_px(scene.of(actor))) for actor in ("visitor", "cart")]
    assert max(medians_px) < 1.0


@pytest.mark.gl
def test_limbs_follow_their_own_bones(hall: EmbeddedRenderer) -> None:
    errors_px = crossing(hall).errors_px(crossing(hall).of("visitor"))
    assert np.percentile(errors_px, 90) < 0.5


@pytest.mark.gl
def test_nobody_is_left_where_he_was(hall: EmbeddedRenderer) -> None:
    scene = crossing(hall)
    for actor in ("visitor", "cart"):
        shown = scene.picture(Modality.INSTANCE) == scene.ids[actor]
        near = cv2.dilate(scene.of(actor).astype(np.uint8), np.ones((5, 5))) > 0
        assert shown.sum() == pytest.approx(scene.of(actor).sum(), rel=0.1)
        assert (shown & ~near).sum() < 0.01 * shown.sum()


@pytest.mark.gl
def test_what_stands_still_does_so(hall: EmbeddedRenderer) -> None:
    moved, still = crossing(hall), crossing(hall, moving_actors=False)
    static = ~(moved.of("visitor") | moved.of("cart"))
    assert np.median(moved.errors_px(static)) < 0.05
    assert (
        np.percentile(moved.errors_px(static), 95)
        < np.percentile(still.errors_px(static), 95) + 0.1
    )
    fractions = [scene.shown.header()["valid_fraction"] for scene in (moved, still)]
    assert 0.95 < fractions[0] < fractions[1]


@pytest.mark.gl
def test_depth_is_that_of_the_actor_where_it_is(hall: EmbeddedRenderer) -> None:
    scene = crossing(hall)
    where = cv2.erode(scene.of("visitor").astype(np.uint8), np.ones((5, 5))) > 0
    shown, truth = (
        scene.picture(Modality.DEPTH32)[where],
        scene.truth[Modality.DEPTH32].pixels[where],
    )
    assert np.median(np.abs(shown / truth - 1.0)) < 0.002
    assert np.percentile(np.abs(shown / truth - 1.0), 90) < 0.02


@pytest.mark.gl
def test_flow_of_what_was_moved_is_unknown(hall: EmbeddedRenderer) -> None:
    scene = crossing(hall)
    shown = scene.picture(Modality.INSTANCE) == scene.ids["visitor"]
    assert np.isnan(scene.picture(Modality.FLOW)[shown]).all()


@pytest.mark.gl
@pytest.mark.parametrize("row", [200, 340])
def test_a_rolling_shutter_shows_each_row_of_a_human_at_its_own_time(
    hall: EmbeddedRenderer, row: int
) -> None:
    readout_ns = 80 * NS_PER_MS
    row_ns = round(((row + 0.5) / 480 - 0.5) * readout_ns)
    scene = late_picture(hall, row_ns, rolling_shutter_ns=readout_ns)
    band = np.zeros((480, 640), np.bool_)
    band[row - 3 : row + 4] = True
    error_px = np.median(scene.errors_px(scene.of("visitor") & band))
    at_once = crossing(hall)._replace(truth=scene.truth)
    assert error_px < 0.7 and 2.0 * error_px < np.median(
        at_once.errors_px(scene.of("visitor") & band)
    )


@pytest.mark.gl
def test_without_instance_ids_the_header_says_so(hall: EmbeddedRenderer) -> None:
    scene = late_picture(hall, modalities=(Modality.RGB, Modality.DEPTH32))
    assert scene.shown.header()["fallback"] == "no instance picture"
    assert scene.shown.header()["moved_actors"] == []


# --- without a renderer ---------------------------------------------------------------------------

WALL_M, POST_M, BOX_M = 6.0, 2.0, 4.0
SIGHT_OF = ViewGeometry(CameraModel("front", 160, 120, math.radians(60.0)))


def painted(box_id: int = 40_000, mat_id: int = 0) -> tuple[ImageArray, ImageArray]:
    """Depth and ids: a wall, a post before it, a box in between, and something flat on the box."""
    depth, ids = np.full((120, 160), WALL_M, np.float32), np.full((120, 160), 1, np.uint16)
    depth[40:80, 40:60], ids[40:80, 40:60] = BOX_M, box_id
    if mat_id:
        ids[40:48, 40:60] = mat_id
    depth[:, 66:76], ids[:, 66:76] = POST_M, 2
    return depth, ids


def box_that_moved(by_m: float) -> MovingActor:
    """The box of the picture, which went to the right."""
    X = SIGHT_OF.K_rendered_inverse @ (49.5, 59.5, 1.0) * BOX_M
    still = np.array([[0.0, 0.0, 0.0, 1.0]])
    half_m = np.array([10.5, 20.5, 4.0]) * BOX_M / SIGHT_OF.K_rendered[0, 0]
    no_segments, no_parts = np.zeros((0, 2, 3)), np.zeros(0, np.intp)
    return MovingActor(
        "box",
        half_m,
        no_segments,
        no_parts,
        X[None],
        still,
        X[None, None] + (by_m, 0, 0),
        still[None],
    )


def solved(
    depth: ImageArray, ids: ImageArray, *actors: MovingActor
) -> tuple[SeenActors, RenderMap]:
    here = Transform.identity()
    seen, exposure = (
        SeenActors(MovingScene(actors, ids), Sight(SIGHT_OF, here, depth)),
        ShutterPoses((here,)),
    )
    motion = exposure.motion_from(here, SIGHT_OF.nodes.rows, 120)
    found = render_map(SIGHT_OF, motion, seen.static_depth)
    return seen, seen.drawn_into(found, exposure) if seen.names else found


def columns(found: RenderMap, row: int = 60) -> ImageArray:
    return np.asarray(np.rint(found.x_px[row]).astype(int))


def test_an_actor_passes_behind_a_post_and_uncovers_the_wall() -> None:
    by_px = 20
    by_m = by_px * BOX_M / SIGHT_OF.K_rendered[0, 0]
    depth, ids = painted()
    seen, found = solved(depth, ids, box_that_moved(by_m))
    assert seen.names == ("box",) and found.moved is not None
    at = columns(found)
    assert (at[66:76] == np.arange(66, 76)).all(), "the post is nearer"
    assert (at[60:66] == np.arange(40, 46)).all() and (at[76:80] == np.arange(56, 60)).all()
    assert (at[:36] == np.arange(36)).all() and (at[84:] == np.arange(84, 160)).all()
    uncovered = at[40:60]
    assert (depth[60, uncovered] == WALL_M).all() and found.moved.unknown[60, 42:58].all()
    assert found.valid_fraction == pytest.approx(1.0 - 20 * 40 / (160 * 120), abs=0.02)
    assert found.moved.z_m == pytest.approx(BOX_M)


def test_a_post_next_to_an_actor_that_leaves_stays_whole() -> None:
    depth, ids = painted()
    depth[40:80, 60:66], ids[40:80, 60:66] = BOX_M, 40_000  # the box goes on behind the post
    seen, found = solved(depth, ids, box_that_moved(-0.4))
    assert seen.names == ("box",)
    assert (columns(found)[66:76] == np.arange(66, 76)).all()
    assert (seen.static_depth[60, 66:76] == POST_M).all() and (
        seen.static_depth[60, 42:66] == WALL_M
    ).all()


@pytest.mark.parametrize("missing", ["actor", "picture", "id"])
def test_a_picture_without_moving_actors_stays_as_it_is(missing: str) -> None:
    depth, ids = painted()
    if missing == "picture":
        depth[40:80, 40:60], ids[40:80, 40:60] = WALL_M, 1
    if missing == "id":
        ids[:] = 0
    seen, found = solved(depth, ids, *(() if missing == "actor" else (box_that_moved(0.4),)))
    assert not seen.names and found.moved is None and seen.static_depth is depth


def test_a_thing_of_the_scene_in_an_actors_place_stays_behind() -> None:
    depth, ids = painted(mat_id=7)
    _, found = solved(depth, ids, box_that_moved(0.4))
    assert columns(found, 44)[40:60].tolist() == list(range(40, 60)), "only one id is the actor's"
    assert columns(found)[40:60].tolist() != list(range(40, 60))


def test_a_body_of_the_scene_may_be_an_actor() -> None:
    depth, ids = painted(box_id=9)
    assert solved(depth, ids, box_that_moved(0.4))[0].names == ("box",)


def test_ids_are_asked_for_in_addition_and_offered_to_nobody() -> None:
    model = CameraModel("front", 32, 24, 1.0)
    asked = (Modality.RGB, Modality.DEPTH)
    made = BridgeCamera(
        model,
        "world",
        Transform.identity(),
        50.0,
        asked,
        compensate="reproject",
        moving_actors=True,
    )
    assert made.drawn == (*asked, Modality.INSTANCE) and made.modalities == asked
    with_ids = BridgeCamera(
        model, "world", Transform.identity(), 50.0, (*asked, Modality.INSTANCE), moving_actors=True
    )
    assert with_ids.drawn == with_ids.modalities


def test_actors_are_only_moved_where_depth_is_known() -> None:
    with pytest.raises(ValueError, match="moving_actors needs latency_compensation: depth"):
        CameraConfig(renderer="drawn", moving_actors=True)
    assert CameraConfig(
        renderer="drawn",
        moving_actors=True,
        modalities=(Modality.RGB, Modality.DEPTH),
        latency_compensation="depth",
    ).moving_actors
