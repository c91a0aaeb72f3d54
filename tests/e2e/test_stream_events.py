"""Events of an event camera over the stream.

Those of the pictures that the reader gets, by every transport.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from tests.support.common import wait_until
from tests.support.stream_rig import RawClient, StreamRig, header
from vil_bridge.client import Frame, Receiver, _decode
from vil_bridge.core.clock import now_ns
from vil_bridge.core.types import ImageArray
from vil_bridge.optics.event_camera import EventCamera
from vil_bridge.outputs.stream.event_encoder import EVENT, EventCameraEncoder
from vil_bridge.protocols.image_codecs import as_gray

pytestmark = pytest.mark.wire

SIZE = (48, 64)
PERIOD_NS = 4_000_000
STEPS = 30


def bar(step: int, colour: bool) -> ImageArray:
    """A bright bar that moves a pixel to the right with every step."""
    gray = np.full(SIZE, 40, np.uint8)
    gray[:, 5 + step : 11 + step] = 220
    return np.ascontiguousarray(np.repeat(gray[:, :, None], 3, axis=2)) if colour else gray


def check(frames: list[Frame], colour: bool, begin_ns: int, steps: Mapping[int, int]) -> None:
    """The events are those of one camera that saw just these pictures, each with the bar at its
    step.
    """
    camera = EventCamera()
    for number, frame in enumerate(frames):
        picture = np.ascontiguousarray(as_gray(bar(steps[frame.frame_id], colour)))
        expected = camera.events(picture, begin_ns + frame.frame_id * PERIOD_NS)
        assert np.array_equal(frame.image["dt_ns"] + frame.t_bridge_ns, expected.t_ns)
        assert np.array_equal(frame.image["x"], expected.x) and np.array_equal(
            frame.image["y"], expected.y
        )
        assert np.array_equal(frame.image["polarity"], expected.polarity)
        assert (len(frame.image) > 0) == (number > 0)
        assert (frame.image["dt_ns"] <= 0).all() and (np.diff(frame.image["dt_ns"]) >= 0).all()
        assert frame.metadata["format"] == "events16"


@pytest.mark.parametrize("transport", ["tcp", "shm", "udp"])
@pytest.mark.parametrize("colour", [True, False])
def test_events_are_those_of_the_pictures_that_the_reader_got(transport: str, colour: bool) -> None:
    begin_ns = now_ns()
    with (
        StreamRig() as rig,
        Receiver(
            rig.endpoint, variant="raw", encoding="events", transport=transport, queue=40
        ) as receiver,
    ):
        wait_until(lambda: receiver.camera_info and rig.sink().wanted("rgb", "raw"))
        got: list[Frame] = []
        number = first = 1
        steps: dict[int, int] = {}
        while number < first + STEPS:
            steps[number] = number - first
            rig.offer(
                bar(steps[number], colour),
                header(number, variant="raw", t_display_ns=begin_ns + number * PERIOD_NS),
            )
            frame = receiver.next(1.0)
            number += 1
            # The data connection comes a little later than the registration.
            if not got and frame is None:
                first = number
            got += [] if frame is None else [frame]
    assert len(got) >= 10
    check(got, colour, begin_ns, steps)


def test_a_picture_that_is_not_newer_is_not_seen() -> None:
    encoder, seen = EventCameraEncoder(), EventCamera()
    times_ns = [1_000_000, 5_000_000, 3_000_000, 9_000_000]
    made = []
    for i, t_ns in enumerate(times_ns):
        payload = encoder.encode(bar(i, True), t_ns).payload
        assert isinstance(payload, bytes)
        made.append(np.frombuffer(payload, EVENT))
    assert [len(events) > 0 for events in made] == [False, True, False, True]
    for i in (0, 1, 3):
        expected = seen.events(np.ascontiguousarray(as_gray(bar(i, True))), times_ns[i])
    assert np.array_equal(made[3]["dt_ns"] + times_ns[3], expected.t_ns)


def test_compensated_pictures_and_other_modalities_have_no_events() -> None:
    with StreamRig() as rig, RawClient(rig.endpoint) as raw:
        answer = raw.ask(type="register", v=1, camera="front", encoding="events")
        assert "ask for variant 'raw'" in answer["reason"]
        answer = raw.ask(
            type="register", v=1, camera="front", modality="depth", variant="raw", encoding="events"
        )
        assert "depth is sent as encoding 'raw' or 'points' only" in answer["reason"]


def test_each_reader_has_an_event_camera_of_its_own() -> None:
    begin_ns = now_ns()
    with (
        StreamRig() as rig,
        Receiver(rig.endpoint, variant="raw", encoding="events", queue=STEPS, name="all") as every,
        Receiver(
            rig.endpoint, variant="raw", encoding="events", queue=STEPS, name="some", rate_hz=100.0
        ) as some,
    ):
        wait_until(lambda: every.camera_info and some.camera_info)
        seen: dict[str, list[Frame]] = {"all": [], "some": []}
        for step in range(STEPS):
            t_ns = begin_ns + (step + 1) * PERIOD_NS
            rig.offer(bar(step, True), header(step + 1, variant="raw", t_display_ns=t_ns))
            frame = every.next(1.0)
            seen["all"] += [] if frame is None else [frame]
        while (frame := some.next(1.0)) is not None:
            seen["some"].append(frame)
    for frames in seen.values():
        assert len(frames) >= 3
        check(frames, True, begin_ns, {step + 1: step for step in range(STEPS)})


def test_events_that_do_not_fit_the_picture_are_malformed() -> None:
    head = {"width": 10, "height": 10, "encoding": "events", "format": "events16"}
    good = np.zeros(16, np.uint8)
    assert len(_decode(head, good.tobytes())) == 1
    outside = good.copy()
    outside[8] = 10
    for payload in (outside.tobytes(), good.tobytes()[:15]):
        with pytest.raises(ValueError, match=r"outside|buffer size"):
            _decode(head, payload)
