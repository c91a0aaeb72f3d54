"""The client against stand-ins of the original programs, which know nothing of our extension."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
import pytest

from tests.support.flightgoggles import (
    BLUE,
    FRONT,
    RED,
    Pump,
    client,
    drone,
    ports,
    pose_at,
    server,
    view,
)
from tests.support.original_renderer import SEEN, UNSEEN, original_renderer
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import CameraModel, Modality, RenderedFrame, TrackingState, View
from vil_bridge.pipeline.camera import BridgeCamera

pytestmark = pytest.mark.wire


FACT = "hidden_from_original_renderers"
NAMES = ("a", "b")
DRONES = (drone("a", pose_at(0, 0, 1)), drone("b", pose_at(2, 0, 1)))
CHASE = CameraModel("chase", 8, 6, FRONT.fov_y_rad)


def camera_on(actor: str) -> View:
    """The view of a camera as the bridge mounts it on an actor."""
    camera = BridgeCamera(FRONT, actor, Transform.identity(), 60.0)
    return view(camera.model, hide=camera.hides)


def in_sight(frame: RenderedFrame, image: int = 0) -> set[str]:
    """Names of the drones that a picture shows."""
    marks = frame.images[image].pixels[0, : len(NAMES)]
    assert set(marks.ravel().tolist()) <= {SEEN, UNSEEN}
    return {name for name, mark in zip(NAMES, marks, strict=True) if mark.max() == SEEN}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_version_is_served(version: int) -> None:
    with client() as bridge, original_renderer(ports(bridge), version):
        pump = Pump(bridge, first_id=2**53 + 1)
        pump.views = (view(), view(modality=Modality.GRAY))
        pump.frames_reach(8)
        counters = bridge.status.counters
        assert counters["malformed"] == counters["unsupported"] == counters["duplicates"] == 0
        assert bridge.status.facts["renderer"] == "original"
        colour, grey = (image.pixels for image in pump.frames[-1].images)
        assert (tuple(colour[0, 0]), tuple(colour[-1, 0])) == (RED, BLUE)
        assert grey.shape == (6, 8) and grey.dtype == np.uint8 and grey[0, 0] > grey[-1, 0]


def test_repeated_poses_carry_both_stamps() -> None:
    with client(keep_alive_s=0.05) as bridge, original_renderer(ports(bridge), 1):
        pump = Pump(bridge)
        pump.frames_reach(2)
        sent = bridge.status.counters["repeats"]
        pump.until(lambda: bridge.status.counters["repeats"] >= sent + 4, asking=False)
        pump.until(lambda: bridge.in_flight == 0, asking=False)
        assert bridge.status.counters["duplicates"] == 0, (
            "an answer to a repeated pose was not recognised"
        )


@pytest.mark.parametrize("version", [1, 2, 3])
def test_two_vehicles_with_a_connection_each_see_each_other(
    version: int, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        client() as first,
        client() as second,
        original_renderer(ports(first), version, NAMES),
        original_renderer(ports(second), version, NAMES),
    ):
        for bridge, own, other in ((first, "a", "b"), (second, "b", "a")):
            pump = Pump(bridge)
            pump.views, pump.actors = (
                (camera_on(own), replace(camera_on(own), modality=Modality.GRAY)),
                DRONES,
            )
            pump.frames_reach(5)
            assert {frozenset(in_sight(frame)) for frame in pump.frames} == {frozenset({other})}
            assert FACT not in bridge.status.facts
    assert "cannot hide" not in caplog.text


def test_what_views_disagree_on_is_hidden_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    with client() as bridge, original_renderer(ports(bridge), 2, NAMES):
        pump = Pump(bridge)
        pump.views, pump.actors = (camera_on("a"), view(CHASE)), DRONES
        pump.frames_reach(6)
        assert all(in_sight(frame, 0) == in_sight(frame, 1) == {"b"} for frame in pump.frames)
        assert bridge.status.facts[FACT] == ["a"]
    said = [
        record
        for record in caplog.records
        if "cannot hide a from one camera" in record.getMessage()
    ]
    assert [record.levelno for record in said] == [logging.WARNING]


def test_a_view_that_is_not_due_hides_nothing() -> None:
    with client() as bridge, original_renderer(ports(bridge), 2, NAMES):
        pump = Pump(bridge)
        own, chase = camera_on("a"), view(CHASE)
        pump.actors = DRONES
        for due, expected in (
            ((True, False), {"b"}),
            ((False, True), {"a", "b"}),
            ((True, False), {"b"}),
        ):
            pump.views = (replace(own, due=due[0]), replace(chase, due=due[1]))
            asked = pump.next_id
            pump.frames_reach(len(pump.frames) + 5)
            frames = [frame for frame in pump.frames if frame.request.frame_id >= asked]
            assert frames and all(in_sight(frame) == expected for frame in frames)
        assert FACT not in bridge.status.facts


def test_our_renderer_hides_from_one_camera_and_nothing_is_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with client() as bridge:
        pump = Pump(bridge)
        pump.views, pump.actors = (camera_on("a"), view(CHASE)), DRONES
        with original_renderer(ports(bridge), 2):
            pump.frames_reach(4)
            assert bridge.status.facts[FACT] == ["a"]
        pump.until(lambda: not bridge.ready(), asking=False)
        caplog.clear()
        with server(ports(bridge)):
            pump.frames_reach(len(pump.frames) + 4)
            assert bridge.status.facts["renderer"] == "test"
            assert FACT not in bridge.status.facts
    assert "cannot hide" not in caplog.text


def test_what_is_lost_or_has_no_model_is_not_disputed() -> None:
    with client(vehicle_prefab="") as bridge, original_renderer(ports(bridge), 2, NAMES):
        pump = Pump(bridge)
        pump.views = (camera_on("a"), view(CHASE))
        pump.actors = (replace(DRONES[0], state=TrackingState.LOST), replace(DRONES[1], prefab=""))
        pump.frames_reach(4)
        assert FACT not in bridge.status.facts
        assert bridge.status.facts["without_prefab"] == ["b"]
