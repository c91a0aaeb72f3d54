"""Frames of another bridge whose actors change from one to the next."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.optitrack import ACTOR
from vil_adapters.remote.convert import FederationConverter
from vil_bridge.core.errors import ProtocolError
from vil_bridge.core.types import ActorKind
from vil_bridge.protocols.federation.messages import RECORD, ActorInfo, Description, FrameMessage

ACTORS = (
    ActorInfo("drone", ActorKind.VEHICLE),
    ActorInfo("Actor", ActorKind.HUMAN, skeleton=ACTOR),
    ActorInfo("gate", ActorKind.PROP),
)
BONES = len(ACTOR.bones)


def frame(*actors: int, bones: int = BONES) -> FrameMessage:
    """A frame whose actor i stands at x = i, and whose bones stand at x = 10, 11..."""
    records = np.zeros(len(actors), RECORD)
    records["actor"], records["q_xyzw"][:, 3], records["p_m"][:, 0] = actors, 1.0, actors
    records["bones"][records["actor"] == 1] = bones
    below = np.zeros(int(records["bones"].sum()), RECORD)
    below["actor"], below["q_xyzw"][:, 3], below["p_m"][:, 0] = 1, 1.0, 10.0 + np.arange(len(below))
    return FrameMessage(7, 1, 1, 5, 9, records, below)


@pytest.mark.parametrize("actors", [(0, 1, 2), (2, 0), (1,), (), (1, 2), (2, 1, 0)])
def test_rows_follow_the_actors_of_each_frame(actors: tuple[int, ...]) -> None:
    convert = FederationConverter("site", Description("there", 1, ACTORS))
    for sent in (frame(0, 1, 2), frame(*actors), frame(*actors)):
        found = convert.frame(sent, 20)
        rigid = [actor for actor in sent.actors["actor"].tolist() if actor != 1]
        assert found.subjects == tuple(ACTORS[actor].name for actor in rigid)
        assert found.p_m[:, 0].tolist() == rigid
        assert [s.p_m[:, 0].tolist() for s in found.skeletons] == [
            [10.0 + i for i in range(BONES)]
        ] * (1 in sent.actors["actor"])
        assert found.tracked.all()
        assert found.latency_ns == 4


def test_a_human_without_bones_has_no_skeleton() -> None:
    convert = FederationConverter("site", Description("there", 1, ACTORS))
    found = convert.frame(frame(0, 1, bones=0), 20)
    assert (found.subjects, found.skeletons) == (("drone",), ())


def test_an_invalid_record_of_a_human_does_not_count() -> None:
    """Its bones say where it is."""
    convert = FederationConverter("site", Description("there", 1, ACTORS))
    sent = frame(0, 1)
    sent.actors["p_m"][1], sent.bones["p_m"][0] = np.nan, np.nan
    (skeleton,) = convert.frame(sent, 20).skeletons
    assert (convert.untrusted, skeleton.tracked.tolist()) == (1, [False] + [True] * (BONES - 1))


def test_frames_that_do_not_fit_the_description_are_refused_each_time() -> None:
    convert = FederationConverter("site", Description("there", 1, ACTORS))
    for _ in range(2):
        with pytest.raises(ProtocolError, match="does not have"):
            convert.frame(frame(3), 20)
        with pytest.raises(ProtocolError, match="described otherwise"):
            convert.frame(frame(1, bones=2), 20)
        assert convert.frame(frame(2), 20).subjects == ("gate",)
