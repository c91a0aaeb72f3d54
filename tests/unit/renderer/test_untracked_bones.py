"""Bones that the mocap system lost: on the wire, and in the embedded renderer's pictures."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from tests.support import embedded as scene
from tests.support import flightgoggles as wire
from vil_bridge.core.errors import ProtocolError
from vil_bridge.core.types import ActorKind, ActorState, ImageArray, Modality, WorldSnapshot
from vil_renderer.flightgoggles.codec import decode_pose, encode_pose
from vil_renderer.flightgoggles.convert import PoseWriter
from vil_renderer.flightgoggles.convert_renderer import read_pose

PREFABS = dict.fromkeys(ActorKind, "")
ASKED = scene.view(scene.looking((0.0, 0.0, 1.2)))
DEPTH = replace(ASKED, modality=Modality.DEPTH)


def without(actor: ActorState, *bones: str, at_origin: bool = False) -> ActorState:
    """The actor with some bones not tracked.

    ``at_origin``: with the pose that such bones have on the mocap wire.
    """
    skeleton = actor.skeleton
    assert skeleton is not None
    lost = np.isin(skeleton.model.bones, bones)
    p_m = np.where(lost[:, None] & at_origin, 0.0, skeleton.p_m)
    return replace(actor, skeleton=replace(skeleton, p_m=p_m, tracked=skeleton.tracked & ~lost))


def person(*lost: str, at_origin: bool = False) -> ActorState:
    return without(scene.person("p", (4.0, 0.0, 0.0)), *lost, at_origin=at_origin)


def sent(actor: ActorState) -> list[bytes]:
    return encode_pose(PoseWriter("Hall", PREFABS).message(wire.ask(1, actors=[actor])))


def tracked_of(frames: list[bytes]) -> list[bool]:
    _, snapshot = read_pose(decode_pose(frames))
    (actor,) = snapshot.actors
    assert actor.skeleton is not None
    found: list[bool] = actor.skeleton.tracked.tolist()
    return found


def with_tracked(frames: list[bytes], tracked: list[bool] | None) -> list[bytes]:
    """The message with another list, or none, as an older sender writes it."""
    message = json.loads(frames[1])
    (skeleton,) = message["vil"]["skeletons"]
    del skeleton["tracked"]
    if tracked is not None:
        skeleton["tracked"] = tracked
    return [frames[0], json.dumps(message).encode()]


def test_the_renderer_learns_which_bones_are_tracked() -> None:
    frames = sent(without(wire.human(0.4), "LThigh"))
    assert tracked_of(frames) == [True, True, False, True]
    assert tracked_of(with_tracked(frames, None)) == [True] * 4
    with pytest.raises(ProtocolError, match="different lengths"):
        decode_pose(with_tracked(frames, [True, False]))


def greyness(picture: ImageArray, mask: ImageArray) -> float:
    """Mean spread between the channels of the masked pixels."""
    return float(np.ptp(picture[mask].astype(int), axis=1).mean())


def test_a_remembered_limb_stays_in_place_and_is_greyer() -> None:
    whole, part = (
        scene.shoot("empty", ASKED, person()),
        scene.shoot("empty", ASKED, person("LUArm", "LHand")),
    )
    assert np.array_equal(
        scene.shoot("empty", DEPTH, person()), scene.shoot("empty", DEPTH, person("LUArm", "LHand"))
    ), "where it is, is the world's to say"
    different = np.any(whole != part, axis=2)
    u = np.nonzero(different)[1]
    assert len(u) > 300 and u.max() < 330, (
        "the left arm is on the left of the picture, and nothing else changes"
    )
    assert greyness(part, different) < 0.5 * greyness(whole, different)


def test_a_remembered_head_is_greyer() -> None:
    whole, part = scene.shoot("empty", ASKED, person()), scene.shoot("empty", ASKED, person("Head"))
    different = np.any(whole != part, axis=2)
    helmet = scene.changed("empty", ASKED, person())
    helmet[200:] = False
    assert different[helmet].mean() > 0.9


@pytest.mark.parametrize(
    "lost", [("LHand",), ("LUArm",), ("Head",), ("LThigh", "LFoot"), ("Hip",), ("Hip", "Chest")]
)
def test_no_limb_reaches_to_the_origin(lost: tuple[str, ...]) -> None:
    broken = person(*lost, at_origin=True)
    nobody = scene.shoot("empty", DEPTH)
    drawn, silhouette = (
        scene.shoot("empty", DEPTH, actor) != nobody for actor in (broken, person())
    )
    assert drawn.sum() > 0.25 * silhouette.sum(), "the rest is still there"
    assert not (drawn & ~silhouette).any()
    here = WorldSnapshot(0, (broken,))
    assert scene.renderer("empty").range_m(ASKED, here) == pytest.approx(1.2), (
        "something lies below the camera"
    )
