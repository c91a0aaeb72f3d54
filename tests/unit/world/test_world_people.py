"""People in the world: unseen bones, people of one name, skeletons solved elsewhere."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.support.world import MS, ROOM, _arrays, frame, world_of
from vil_bridge.core.clock import now_ns
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import (
    ActorKind,
    SkeletonFrame,
    SkeletonModel,
    SourceFrame,
    TrackingState,
)
from vil_bridge.world.actors import Actor, TrackingLimits
from vil_bridge.world.frame_binding import RoomFrame
from vil_bridge.world.skeleton_tracks import SkeletonTrack
from vil_bridge.world.world import World


def test_skeletons_are_placed_in_the_world_and_predicted() -> None:
    human = Actor("human", ActorKind.HUMAN, "mocap", "Actor")
    world = world_of(human)
    model = SkeletonModel("Actor", ("Hip", "Chest"), (-1, 0), np.zeros((2, 3)))
    t0 = now_ns() - 100 * MS
    for k in range(11):
        p = np.array([[0.1 * k, 0.0, 1.0], [0.1 * k, 0.0, 1.4]])
        skeleton = SkeletonFrame(model, p, np.tile([0.0, 0, 0, 1], (2, 1)), np.ones(2, dtype=bool))
        empty = frame(t0 + 10 * k * MS, {})
        world.ingest(
            SourceFrame(
                "mocap",
                k,
                None,
                empty.t_arrival_ns,
                (),
                np.zeros((0, 3)),
                np.zeros((0, 4)),
                empty.tracked,
                (skeleton,),
            )
        )
    state = world.snapshot(t0 + 120 * MS).actors[0]
    assert state.skeleton is not None
    np.testing.assert_allclose(
        state.skeleton.p_m[1], ROOM.apply(np.array([1.2, 0.0, 1.4])), atol=1e-9
    )
    past = world.snapshot(t0 + 55 * MS).actors[0].skeleton
    assert past is not None
    np.testing.assert_allclose(past.p_m[0], ROOM.apply(np.array([0.55, 0.0, 1.0])), atol=1e-9)


def walker(
    k: int, *, x_m: float = 0.0, tracked: tuple[bool, ...] = (True, True, True)
) -> SourceFrame:
    """Hip, chest above it, head above that, walking along x; untracked bones come as zeros."""
    p = np.array(
        [[x_m + 0.01 * k, 0.0, 1.0], [x_m + 0.01 * k, 0.0, 1.4], [x_m + 0.01 * k, 0.1, 1.7]]
    )
    seen = np.array(tracked)
    p[~seen] = 0.0
    skeleton = SkeletonFrame(WALKER, p, np.tile([0.0, 0, 0, 1], (3, 1)), seen)
    empty = frame(T_WALK + 10 * k * MS, {})
    return SourceFrame("mocap", k, None, empty.t_arrival_ns, *_arrays(empty), (skeleton,))


WALKER = SkeletonModel(
    "Actor", ("Hip", "Chest", "Head"), (-1, 0, 1), np.array([[0, 0, 1.0], [0, 0, 0.5], [0, 0, 0.2]])
)
T_WALK = now_ns()


def bones_of(world: World, k: float) -> np.ndarray:
    skeleton = world.snapshot(T_WALK + round(10 * k * MS)).actors[0].skeleton
    assert skeleton is not None
    return ROOM.inverse().apply(skeleton.p_m)


def test_an_unseen_bone_stays_where_it_was_on_its_parent() -> None:
    world = world_of(Actor("human", ActorKind.HUMAN, "mocap", "Actor"))
    world.ingest(walker(0, tracked=(True, True, False)))
    # Never seen: at rest.
    np.testing.assert_allclose(bones_of(world, 0)[2], (0.0, 0.0, 1.6), atol=1e-9)
    for k in range(1, 10):
        world.ingest(walker(k))
    world.ingest(walker(10, tracked=(True, False, False)))
    np.testing.assert_allclose(
        bones_of(world, 10), [[0.1, 0, 1.0], [0.1, 0, 1.4], [0.1, 0.1, 1.7]], atol=1e-9
    )


def test_bones_never_seen_are_at_rest_one_upon_another() -> None:
    world = world_of(Actor("human", ActorKind.HUMAN, "mocap", "Actor"))
    world.ingest(walker(0, tracked=(True, False, False)))
    np.testing.assert_allclose(
        bones_of(world, 0), [[0.0, 0.0, 1.0], [0.0, 0.0, 1.5], [0.0, 0.0, 1.7]], atol=1e-9
    )


def test_a_bone_that_is_no_number_is_one_unseen() -> None:
    world = world_of(Actor("human", ActorKind.HUMAN, "mocap", "Actor"))
    world.ingest(walker(0))
    broken = walker(1)
    broken.skeletons[0].q_xyzw[2, 1] = np.nan
    world.ingest(broken)
    np.testing.assert_allclose(bones_of(world, 1)[2], (0.01, 0.1, 1.7), atol=1e-9)
    skeleton = world.snapshot(T_WALK + 10 * MS).actors[0].skeleton
    assert skeleton is not None and skeleton.tracked.tolist() == [True, True, False]
    broken = walker(2)
    broken.skeletons[0].p_m[0, 0] = np.inf
    world.ingest(broken)
    assert np.isfinite(bones_of(world, 2)).all()
    assert world.snapshot(T_WALK + 20 * MS).actors[0].state is not TrackingState.TRACKED


def test_two_people_of_one_name_are_counted_apart() -> None:
    world = World(
        {"mocap": ROOM, "other": ROOM},
        [
            Actor("here", ActorKind.HUMAN, "mocap", "Actor"),
            Actor("there", ActorKind.HUMAN, "other", "Actor"),
        ],
    )
    for k in range(3):
        world.ingest(walker(k))
    world.ingest(walker(3, x_m=2.0))
    counters = world.counters()
    assert (counters["rejected/here"], counters["rejected/there"]) == (1, 0)


def test_a_skeleton_solved_elsewhere_starts_over() -> None:
    world = world_of(Actor("human", ActorKind.HUMAN, "mocap", "Actor"))
    for k in range(10):
        world.ingest(walker(k))
    world.ingest(walker(10, x_m=2.0))
    # One frame says nothing.
    np.testing.assert_allclose(bones_of(world, 10)[0], (0.1, 0.0, 1.0), atol=1e-9)
    for k in range(11, 15):
        world.ingest(walker(k, x_m=2.0))
    assert (world.counters()["rejected/human"], world.counters()["jumps/human"]) == (4, 1)
    np.testing.assert_allclose(bones_of(world, 18)[0], (2.14, 0.0, 1.0), atol=1e-9)


def test_people_move_with_the_clock_of_their_own_source_alone() -> None:
    """One source's transit falls by 15 ms, so that its line moves.

    The other's clock is right from the start.
    """
    sources = ("mocap", "other")
    world = World(
        dict.fromkeys(sources, ROOM),
        [Actor(name, ActorKind.HUMAN, name, "Actor") for name in sources],
    )
    for k in range(20):
        t_ns = T_WALK + 10 * k * MS
        for source, transit_ns in (("mocap", (20 if k < 10 else 5) * MS), ("other", 5 * MS)):
            sent = replace(
                walker(k), source=source, t_foreign_ns=t_ns + 10**12, t_arrival_ns=t_ns + transit_ns
            )
            world.ingest(sent)
    for source in sources:
        newest = world.newest_skeleton(source)
        assert newest is not None
        actors = {actor.name: actor for actor in world.snapshot(newest[1] - 150 * MS).actors}
        skeleton = actors[source].skeleton
        assert skeleton is not None
        np.testing.assert_allclose(ROOM.inverse().apply(skeleton.p_m)[0, 0], 0.04, atol=1e-3)


def test_the_first_frame_may_be_stamped_zero() -> None:
    track = SkeletonTrack(TrackingLimits())
    skeleton = walker(0).skeletons[0]
    track.append(0, 0, skeleton, RoomFrame(Transform.identity()))
    assert track.at(0, 0) is not None
