"""Actors that their sources do not stream under that name or kind are told about, once."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
import pytest

from tests.support.actors import posed_by
from tests.support.skeleton_trees import tree_of
from vil_bridge.config.root import ActorConfig
from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.geometry import Transform, q_from_euler_zyx
from vil_bridge.core.types import SkeletonFrame, SkeletonModel, SourceFrame, SourceReset
from vil_bridge.daemon.subject_check import NOT_HUMAN, SubjectCheck
from vil_bridge.monitoring.state_changes import PAUSE_NS
from vil_bridge.runtime.supervisor import Status

PERSON = replace(tree_of("motive"), name="Actor")


def actor(subject: str, kind: str = "vehicle") -> ActorConfig:
    return ActorConfig.model_validate({"kind": kind, "source": "motive", "subject": subject})


def frame(*subjects: str, age_s: float) -> SourceFrame:
    count = len(subjects)
    q = np.tile((0.0, 0.0, 0.0, 1.0), (count, 1))
    skeleton = posed_by(PERSON)
    t_ns = now_ns() - round(age_s * NS_PER_S)
    return SourceFrame(
        "motive",
        1,
        None,
        t_ns,
        subjects,
        np.zeros((count, 3)),
        q,
        np.ones(count, bool),
        (skeleton,),
    )


def test_names_and_kinds_that_the_stream_does_not_have(caplog: pytest.LogCaptureFixture) -> None:
    wanted = {
        "good": actor("CF1"),
        "case": actor("cf1"),
        "kind": actor("Actor"),
        "person": actor("CF1", "human"),
        "human": actor("Actor", "human"),
        "described": actor("gate"),
    }
    watch, status = SubjectCheck(wanted), Status("motive")
    status.facts["subjects"] = ["gate"]
    watch.check({"motive": status})
    assert watch.problems == {}, "nothing came yet: the source itself says why"
    watch.record(frame("CF1", age_s=0.5))
    watch.check({"motive": status})
    assert watch.problems == {}, "some servers list their subjects one by one"
    watch.record(SourceReset("motive", "restart", clock=False))
    watch.record(frame("CF1", age_s=5.0))
    watch.record(SourceReset("motive", "put elsewhere", clock=False, subjects=("CF1",)))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            watch.check({"motive": status})
    assert set(watch.problems) == {"case", "kind", "person"}
    assert (
        watch.problems["case"]
        == "config wants 'cf1'; stream has 'CF1', 'gate', 'Actor' (did you mean 'CF1'?)"
    )
    assert watch.problems["kind"] == "'Actor' is a skeleton, which only `kind: human` can be"
    assert watch.problems["person"] == "'CF1' is a rigid body, and `kind: human` wants a skeleton"
    assert sorted(r.message.partition(":")[0] for r in caplog.records) == [
        "actor case",
        "actor kind",
        "actor person",
    ]
    watch.record(frame("CF1", "cf1", age_s=0.0))
    watch.check({"motive": status})
    assert set(watch.problems) == {"kind", "person"}, "who appears later is welcome"


# --- wrong up axis, no human ---------------------------------------------------------------------

LYING = Transform.of((0.0, 0.0, 0.3), q_from_euler_zyx(0.0, 0.0, np.pi / 2))
"""A y-up world read as z-up."""


def seen(
    watch: SubjectCheck,
    t_s: float,
    body: Transform | None = None,
    *skeletons: SkeletonFrame,
    subject: str = "CF1",
) -> None:
    """One frame at a time since now."""
    subjects, pose = ((), []) if body is None else ((subject,), [body])
    p_m = np.array([T.p_m for T in pose]).reshape(-1, 3)
    q = np.array([T.q_xyzw for T in pose]).reshape(-1, 4)
    t_ns = now_ns() + round((t_s - 60.0) * NS_PER_S)
    watch.record(
        SourceFrame("motive", 1, None, t_ns, subjects, p_m, q, np.ones(len(pose), bool), skeletons)
    )
    watch.check({"motive": Status("motive")})


def test_a_person_who_lies_for_two_seconds_is_a_wrong_up_axis() -> None:
    watch = SubjectCheck({"anna": actor("Actor", "human")}, {"motive": "z"})
    standing = posed_by(PERSON)
    lying = standing.moved(LYING)
    for t_s, skeleton, said in (
        (0, standing, False),
        (1, lying, False),
        (2, lying, False),
        (3.5, lying, True),
    ):
        seen(watch, t_s, None, skeleton)
        assert bool(watch.problems) is said, t_s
    assert watch.problems["anna"] == (
        "measures 0.13 x 1.58 x 0.20 m along x, y, z: it lies, or the up axis is wrong."
        " Set `up_axis:` of sources.motive (now z) to that of the mocap program, or run "
        "`vil-bridge align`"
    )
    seen(watch, 4.0, None, standing)
    assert watch.problems == {}


@pytest.mark.parametrize(
    ("pose", "problem"),
    [
        (Transform.of((0.0, 0.0, 1.0), q_from_euler_zyx(0.4, 0.3, -0.3)), ""),
        (
            Transform.of((0.0, 0.0, 1.0), q_from_euler_zyx(0.0, np.pi / 2, 0.0)),
            "is tilted by 90 degrees",
        ),
        (Transform.of((0.0, 1.0, -1.2)), "is 1.20 m below the floor (z = 0)"),
    ],
)
def test_a_vehicle_on_its_side_or_below_the_floor_is_a_wrong_up_axis(
    pose: Transform, problem: str
) -> None:
    watch = SubjectCheck({"drone": actor("CF1"), "box": actor("CF1", "prop")}, {"motive": "y"})
    other = SubjectCheck({"drone": actor("CF1")})
    for t_s in (0, 1, 2, 3):
        seen(watch, t_s, pose)
        seen(other, t_s, pose)
    assert set(watch.problems) == ({"drone"} if problem else set())
    assert watch.problems.get("drone", "").startswith(problem)
    assert other.problems == {}, "a simulated car may lie on its roof"


def test_a_skeleton_that_is_not_a_human() -> None:
    chain = SkeletonModel("Actor", ("a", "b", "c"), (-1, 0, 1), np.full((3, 3), 0.3))
    watch = SubjectCheck({"anna": actor("Actor", "human")})
    for t_s in (0, 1):
        seen(watch, t_s, None, posed_by(chain))
    assert watch.problems == {"anna": NOT_HUMAN}


def test_a_file_that_loops_every_second_is_judged_too() -> None:
    """A cycle of a walk is that short, and each pass of it is a reset."""
    chain = SkeletonModel("Actor", ("a", "b", "c"), (-1, 0, 1), np.full((3, 3), 0.3))
    watch = SubjectCheck({"anna": actor("Actor", "human"), "drone": actor("CF1")}, {"motive": "y"})
    for second in range(4):
        watch.record(SourceReset("motive", "the recording begins again"))
        seen(watch, 60.0 + second, tilted(1.4), posed_by(chain))
    assert watch.problems["anna"] == NOT_HUMAN
    assert watch.problems["drone"].startswith("is tilted by 80 degrees")
    watch.record(SourceReset("motive", "restart"))
    watch.check({"motive": Status("motive")})
    assert watch.problems == {}, "nothing came since"


def test_a_name_that_two_of_the_stream_have() -> None:
    """OptiTrack's frames hold the first one only; its source warns by the descriptions."""
    watch = SubjectCheck(
        {"drone": actor("CF1"), "anna": actor("Actor", "human"), "box": actor("CF2", "prop")}
    )
    both = frame("CF1", "CF2", "CF1", age_s=0.0)
    watch.record(replace(both, skeletons=both.skeletons * 3))
    watch.check({"motive": Status("motive")})
    assert watch.problems == {
        "drone": "2 in the stream are named 'CF1': the first is used. Rename the others",
        "anna": "3 in the stream are named 'Actor': the first is used. Rename the others",
    }


def tilted(angle_rad: float) -> Transform:
    return Transform.of((0.0, 0.0, 1.0), q_from_euler_zyx(0.0, angle_rad, 0.0))


def test_a_moving_tilted_body_is_logged_once_until_the_problem_is_gone(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    watch = SubjectCheck({"drone": actor("CF1")}, {"motive": "y"})
    texts = set()
    for tick in range(100):  # 20 s of one look each 0.2 s
        seen(watch, 0.2 * tick, tilted(1.2 + 0.005 * tick))
        texts |= set(watch.problems.values())
    assert len(texts) > 20, "the status holds the live angle"
    assert [r.levelname for r in caplog.records] == ["WARNING"]
    assert caplog.messages[0].startswith("actor drone: is tilted by ")
    t_ns = now_ns()
    monkeypatch.setattr("vil_bridge.daemon.subject_check.machine_ns", lambda: t_ns)
    for t_s, angle_rad in ((21.0, 0.0), (25.0, 1.5), (28.0, 1.5)):
        t_ns += PAUSE_NS
        seen(watch, t_s, tilted(angle_rad))
    assert [r.levelname for r in caplog.records] == ["WARNING", "INFO", "WARNING"]


def test_a_restart_of_the_source_does_not_log_a_known_problem_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = SubjectCheck({"drone": actor("CF1")}, {"motive": "y"})
    for t_s in (0, 1, 2, 3):
        seen(watch, t_s, tilted(1.5))
    monkeypatch.setattr("vil_bridge.daemon.subject_check.machine_ns", lambda: now_ns() + PAUSE_NS)
    watch.record(SourceReset("motive", "restart", clock=False))
    watch.check({"motive": Status("motive")})
    assert watch.problems == {}
    seen(watch, 4, tilted(1.5))
    assert set(watch.problems) == {"drone"}
    assert [r.message.partition(":")[0] for r in caplog.records] == ["actor drone"]


def test_bodies_that_come_in_frames_of_their_own_are_judged() -> None:
    watch = SubjectCheck({"drone": actor("CF1"), "other": actor("CF2")}, {"motive": "y"})
    for t_s in np.arange(0.0, 3.0, 0.1).tolist():
        seen(watch, t_s, tilted(1.5))
        seen(watch, t_s, tilted(0.0), subject="CF2")
    assert set(watch.problems) == {"drone"}
    seen(watch, 10.0, tilted(0.0), subject="CF2")
    assert watch.problems == {}, "a pose of a body that is not sent any more says nothing"
