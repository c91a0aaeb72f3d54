"""Actors that their sources do not stream under that name or kind are told about, once."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from vil_bridge.config.root import ActorConfig
from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.supervisor import Status
from vil_bridge.core.types import SkeletonFrame, SkeletonModel, SourceFrame, SourceReset
from vil_bridge.subjects import SubjectWatch

PERSON = SkeletonModel("Actor", ("Hip",), (-1,), np.zeros((1, 3)))


def actor(subject: str, kind: str = "vehicle") -> ActorConfig:
    return ActorConfig.model_validate({"kind": kind, "source": "motive", "subject": subject})


def frame(*subjects: str, age_s: float) -> SourceFrame:
    count = len(subjects)
    q = np.tile((0.0, 0.0, 0.0, 1.0), (count, 1))
    skeleton = SkeletonFrame(PERSON, np.zeros((1, 3)), np.array([[0.0, 0.0, 0.0, 1.0]]), np.array([False]))
    t_ns = now_ns() - round(age_s * NS_PER_S)
    return SourceFrame("motive", 1, None, t_ns, subjects, np.zeros((count, 3)), q, np.ones(count, bool), (skeleton,))


def test_names_and_kinds_that_the_stream_does_not_have(caplog: pytest.LogCaptureFixture) -> None:
    wanted = {
        "good": actor("CF1"),
        "case": actor("cf1"),
        "kind": actor("Actor"),
        "person": actor("CF1", "human"),
        "human": actor("Actor", "human"),
        "described": actor("gate"),
    }
    watch, status = SubjectWatch(wanted), Status("motive")
    status.facts["subjects"] = ["gate"]
    watch.look({"motive": status})
    assert watch.problems == {}, "nothing came yet: the source itself says why"
    watch.take(frame("CF1", age_s=0.5))
    watch.look({"motive": status})
    assert watch.problems == {}, "some servers list their subjects one by one"
    watch.take(SourceReset("motive", "restart", clock=False))
    watch.take(frame("CF1", age_s=5.0))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            watch.look({"motive": status})
    assert set(watch.problems) == {"case", "kind", "person"}
    assert watch.problems["case"] == "config wants 'cf1'; stream has 'CF1', 'gate', 'Actor' (did you mean 'CF1'?)"
    assert watch.problems["kind"] == "'Actor' is a skeleton, which only `kind: human` can be"
    assert watch.problems["person"] == "'CF1' is a rigid body, and `kind: human` wants a skeleton"
    assert sorted(r.message.partition(":")[0] for r in caplog.records) == ["actor case", "actor kind", "actor person"]
    watch.take(frame("CF1", "cf1", age_s=0.0))
    watch.look({"motive": status})
    assert set(watch.problems) == {"kind", "person"}, "who appears later is welcome"
