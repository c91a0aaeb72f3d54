"""Humans of every convention are recognised by their trees, stand at their hips, and are drawn
as humans.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.actors import human, points, pose_one, posed_by, scene
from tests.support.embedded import rotation
from tests.support.skeleton_trees import CONVENTIONS, expected_parts, tree_of
from tests.support.world import MS, ROOM, frame, world_of
from vil_bridge.bodies.skeleton import body_parents, canonical_bones, is_human, place_of
from vil_bridge.core.clock import now_ns
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import ActorKind, SkeletonFrame, SkeletonModel
from vil_bridge.world.actors import Actor
from vil_bridge.world.geofence import shape_of
from vil_renderer.embedded.actors import ActorModels
from vil_renderer.embedded.actors.figure import figure
from vil_renderer.embedded.scene import Posed

LIMB_PARTS = ("upper_arm", "lower_arm", "hand", "upper_leg", "lower_leg", "foot")


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_every_convention_is_recognised(convention: str) -> None:
    model = tree_of(convention)
    found = {part: model.bones[bone] for part, bone in canonical_bones(model).items()}
    assert found == expected_parts(convention)
    assert is_human(model)


@pytest.mark.parametrize("convention", [c for c in CONVENTIONS if c != "biovision"])
def test_a_tree_without_a_known_name_is_recognised(convention: str) -> None:
    """Toes tell left from right where names do not."""
    named, bare = tree_of(convention), tree_of(convention, named=False)
    left_out = {"neck", "head"} if convention in {"cmu", "mixamo"} else set()
    wanted = {part: bone for part, bone in canonical_bones(named).items() if part not in left_out}
    assert canonical_bones(bare).items() >= wanted.items()
    mirrored = replace(bare, offsets_m=bare.offsets_m * (1.0, -1.0, 1.0))
    swapped = {"left": "right", "right": "left"}
    for part, bone in wanted.items():
        side, _, name = part.partition("_")
        assert (
            canonical_bones(mirrored)[f"{swapped[side]}_{name}" if side in swapped else part]
            == bone
        )


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_every_convention_is_drawn_as_a_human(convention: str) -> None:
    model = tree_of(convention)
    parts = canonical_bones(model)
    skeleton = posed_by(model, {model.bones[parts["left_lower_arm"]]: rotation(-70.0)})
    posed = pose_one(ActorModels(scene()), human(skeleton))
    assert posed.asset.name == figure().name
    for side in ("left", "right"):
        for part in LIMB_PARTS:
            node = canonical_node(part, side)
            assert posed.world_from_node[node, :3, 3] == pytest.approx(
                skeleton.p_m[parts[f"{side}_{part}"]], abs=2e-3
            )
    low, high = points(posed).min(axis=0), points(posed).max(axis=0)
    assert abs(low[2]) < 0.03
    assert 1.6 < high[2] < 1.9


def canonical_node(part: str, side: str) -> int:
    names = ("Arm", "ForeArm", "Hand", "UpLeg", "Leg", "Foot")
    return figure().node_named(side.capitalize() + names[LIMB_PARTS.index(part)])


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_a_human_stands_at_the_hips(convention: str) -> None:
    skeleton = posed_by(tree_of(convention))
    assert place_of(skeleton).p_m == pytest.approx([0.0, 0.0, 0.98])


def test_a_bone_from_a_root_at_the_origin_to_the_hips_is_no_part_of_the_body() -> None:
    model = tree_of("mixamo")
    assert model.parents[1] == 0
    assert body_parents(model)[:3] == (-1, -1, 1)
    plain = tree_of("motive")
    assert body_parents(plain) == plain.parents


def walking(model: SkeletonModel, k: int) -> SkeletonFrame:
    """The hips walk 1 m/s along x; a root above them stays at the origin."""
    offsets_m = model.offsets_m.copy()
    offsets_m[canonical_bones(model)["hips"], 0] += 0.01 * k
    return replace(posed_by(replace(model, offsets_m=offsets_m)), model=model)


def test_the_world_has_a_human_whose_root_stays_at_the_origin_at_its_hips() -> None:
    """Snapshot, prediction and the gate for jumps follow the hips."""
    model = tree_of("mixamo")
    world = world_of(Actor("human", ActorKind.HUMAN, "mocap", "mixamo"))
    t0_ns = now_ns() - 200 * MS
    for k in range(21):
        t_ns = t0_ns + 10 * k * MS
        world.ingest(replace(frame(t_ns, {}), skeletons=(walking(model, k),)))
    for ahead_ms, walked_m in ((0, 0.20), (50, 0.25), (-100, 0.10)):
        (state,) = world.snapshot(t0_ns + (200 + ahead_ms) * MS).actors
        assert state.T_world_body.p_m == pytest.approx(
            ROOM.apply(np.array([walked_m, 0.0, 0.98])), abs=1e-6
        )
    world.ingest(replace(frame(t0_ns + 210 * MS, {}), skeletons=(walking(model, 2100),)))
    assert world.counters()["rejected/human"] == 1, "20 m in 10 ms"


def test_walls_do_not_see_a_bone_from_the_origin_to_the_hips() -> None:
    far = posed_by(tree_of("mixamo")).moved(Transform.of((6.0, 0.0, 0.0)))
    far.p_m[0] = 0.0
    state = human(far)
    assert (shape_of(state, state, 0.1).center_m[:, 0] > 5.0).all()


def test_what_has_no_human_tree_is_not_a_human() -> None:
    chain = SkeletonModel(
        "snake", tuple(f"b{i}" for i in range(9)), tuple(range(-1, 8)), np.full((9, 3), 0.1)
    )
    assert not is_human(chain)
    # A dog has the tree of a human, but its legs do not leave the hips away from the spine.
    human_tree = tree_of("xsens", named=False)
    lying = human_tree.offsets_m.copy()
    spine = [canonical_bones(human_tree)[part] for part in ("spine", "chest")]
    for bone in range(spine[0], spine[1] + 1):
        lying[bone] = rotation(0.0, 90.0) @ lying[bone]
    assert not is_human(replace(human_tree, offsets_m=lying))


def test_a_rigs_chains_of_controls_are_not_its_legs() -> None:
    model = tree_of("mixamo")
    bones, parents = list(model.bones), list(model.parents)
    offsets_m = model.offsets_m.tolist()
    for side, y in (("Left", 0.1), ("Right", -0.1)):
        for k, name in enumerate(("IkRoot", "IkHeel", "IkToe", "IkPole")):
            bones.append(side + name)
            parents.append(0 if k == 0 else len(bones) - 2)
            offsets_m.append([0.3, y if k == 0 else 0.0, 0.0])
    rig = SkeletonModel("rig", tuple(bones), tuple(parents), np.array(offsets_m))
    assert canonical_bones(rig) == canonical_bones(model)


# --- feet ----------------------------------------------------------------------------------------


def with_ankles(height_m: float, forward_m: float) -> SkeletonModel:
    """The tree of Xsens with ankles this high above the floor and toes this far ahead, 2 cm
    above it.
    """
    model = tree_of("xsens")
    parts = canonical_bones(model)
    offsets_m = model.offsets_m.copy()
    for side in ("left", "right"):
        foot, toe = parts[f"{side}_foot"], parts[f"{side}_toe"]
        offsets_m[foot, 2] += height_m - 0.09
        offsets_m[toe] = (forward_m, 0.0, 0.02 - height_m)
    return replace(model, offsets_m=offsets_m)


def sole(posed: Posed) -> tuple[float, float]:
    """Lowest points of heels and of toes, metres."""
    p_m = points(posed)
    low = p_m[p_m[:, 2] < 0.2]
    return float(low[low[:, 0] < 0.0, 2].min()), float(low[low[:, 0] > 0.06, 2].min())


@pytest.mark.parametrize("height_m", [0.09, 0.11, 0.13])
def test_a_foot_with_a_high_ankle_stands_flat_on_the_floor(height_m: float) -> None:
    """The skeleton's line from ankle to toe slopes by 28 to 42 degrees, the model's by 24."""
    model = with_ankles(height_m, 0.12)
    posed = pose_one(ActorModels(scene()), human(posed_by(model)))
    heel_m, toes_m = sole(posed)
    assert heel_m == pytest.approx(0.0, abs=0.012)
    assert toes_m == pytest.approx(heel_m, abs=0.008)


def test_a_foot_that_points_down_at_rest_points_down_and_stands_when_it_is_lifted() -> None:
    model = with_ankles(0.15, 0.04)  # 73 degrees
    steep = np.arctan2(0.13, 0.04)
    cast = ActorModels(scene())
    heel_m, toes_m = sole(pose_one(cast, human(posed_by(model))))
    assert heel_m - toes_m > 0.05, "on tiptoe"
    lift = rotation(0.0, -np.degrees(steep) + 24.0)
    standing = posed_by(model, {"LeftAnkle": lift, "RightAnkle": lift})
    heel_m, toes_m = sole(pose_one(cast, human(standing)))
    assert heel_m == pytest.approx(toes_m, abs=0.012)


def test_a_large_tree_takes_no_longer_than_a_moment() -> None:
    """A thousand bones that hold no human: the number of pairs tried is bounded."""
    rng = np.random.default_rng(3)
    parents = (-1, *(int(rng.integers(max(0, i - 12), i)) for i in range(1, 1000)))
    tangle = SkeletonModel(
        "tangle", tuple(f"b{i}" for i in range(1000)), parents, rng.normal(size=(1000, 3))
    )
    assert set(canonical_bones(tangle).values()) <= set(range(1000))
