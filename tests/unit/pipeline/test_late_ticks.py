"""A renderer that stalls.

Its last picture is shown again for each tick, marked, and never where that would deceive.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from msgspec import UNSET

from tests.support.stalled_renderer import PERIOD_NS, StalledFlight, table
from vil_bridge.core.clock import NS_PER_MS
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import (
    CameraModel,
    Modality,
    RenderedFrame,
    RenderedImage,
    RenderRequest,
    View,
    WorldSnapshot,
)
from vil_bridge.pipeline.camera import BridgeCamera, RunningDelay
from vil_bridge.pipeline.compensation import CameraFrame
from vil_bridge.pipeline.late_ticks import LateTicks

LIMIT_NS = 250 * NS_PER_MS
JITTER_NS = 2 * NS_PER_MS
"""Pictures are made and looked at in whole milliseconds."""


@pytest.fixture(scope="module", params=[300, 1000])
def flight(request: pytest.FixtureRequest) -> StalledFlight:
    made = StalledFlight(request.param, compensate="reproject")
    made.fly()
    return made


def test_the_stream_has_no_gap_up_to_the_limit(flight: StalledFlight) -> None:
    shown = [s.header for s in flight.shown]
    gaps = [(b.t_display_ns - a.t_display_ns, a) for a, b in pairwise(shown)]
    assert all(gap_ns > 0 for gap_ns, _ in gaps)
    reached_ns = {a.frame_id: a.t_display_ns - (a.t_render_ns or 0) for _, a in gaps}
    assert all(
        gap_ns <= PERIOD_NS + JITTER_NS or reached_ns[a.frame_id] > LIMIT_NS - PERIOD_NS
        for gap_ns, a in gaps
    )
    begin_ns, end_ns = flight.stall_ns
    again = [h for h in shown if h.render_age_ns is not UNSET]
    assert len(again) >= LIMIT_NS // PERIOD_NS - 1
    assert max(h.t_display_ns - (h.t_render_ns or 0) for h in again) <= LIMIT_NS
    assert all(begin_ns < h.t_display_ns < end_ns + 2 * PERIOD_NS for h in again), (
        "and none while the renderer works"
    )
    assert len({h.frame_id for h in shown}) == len(shown)


def test_each_picture_of_an_old_rendering_is_marked_with_its_age(flight: StalledFlight) -> None:
    known = set[int | None]()
    for header in (s.header for s in flight.shown):
        if header.t_render_ns in known:
            assert header.t_render_ns is not None
            assert header.render_age_ns == header.t_display_ns - header.t_render_ns > 0
            assert header.fields()["render_age_ns"] == header.render_age_ns
            assert header.t_oldest_ns is not None and header.stamps_ns.request is not None
            assert header.t_oldest_ns <= header.stamps_ns.request, (
                "its age counts from the rendering's pose"
            )
        else:
            assert "render_age_ns" not in header.fields()
        known.add(header.t_render_ns)


def test_only_rendered_pictures_count(flight: StalledFlight) -> None:
    again = sum(s.age_ns is not None for s in flight.shown)
    rendered = len(flight.shown) - again
    assert flight.relay.repeated == again
    assert (
        flight.meter.count
        == rendered
        == len(flight.ledger.rows())
        == sum(flight.relay.warped.values())
    )
    assert flight.relay.delivered == {"gray/compensated": rendered}
    assert flight.relay.newest is not None and flight.relay.newest[0].render_age_ns is UNSET


def test_pictures_are_asked_for_no_farther_ahead_after_the_stall(flight: StalledFlight) -> None:
    usual_ns = flight.delays_ns[20]
    assert all(abs(delay_ns - usual_ns) <= JITTER_NS for delay_ns in flight.delays_ns[20:])


def test_marks_stay_in_place_at_every_age(flight: StalledFlight) -> None:
    for again in (False, True):
        errors_px = np.concatenate(
            [flight.errors_px(s) for s in flight.shown if (s.age_ns is not None) == again]
        )
        assert errors_px.size > 200
        assert np.median(errors_px) < 0.15 and errors_px.mean() < 0.25


@pytest.mark.long
def test_residual_by_age() -> None:
    found = table()
    assert found["reproject"][250][0] < 0.25 and found["homography"][250][0] < 0.3
    means_px = [mean for mean, _ in found["rotation"].values()]
    assert means_px[-1] > 5.0 * means_px[0], "a rotation alone leaves what grows with the age"


@pytest.mark.parametrize(
    "camera",
    [{"repeat_ns": 0}, {"compensate": "none", "margin_rad": 0.0}, {"max_age_ns": 25 * NS_PER_MS}],
    ids=["off", "not warped", "too old"],
)
def test_nothing_is_shown_again(camera: dict[str, object]) -> None:
    flight = StalledFlight(200, **camera)
    flight.fly()
    assert flight.relay.rendered > 20
    assert flight.relay.repeated == 0 and all(s.age_ns is None for s in flight.shown)


def test_a_lost_carrier_is_not_shown_as_if_it_was_seen() -> None:
    flight = StalledFlight(250)
    flight.fly(lambda ms: setattr(flight, "seen", ms < 520))
    lost_ns = flight.stall_ns[0] + 20 * NS_PER_MS + 100 * NS_PER_MS
    again = [s for s in flight.shown if s.age_ns is not None]
    assert again and all(
        s.header.stamps_ns.warp is not None and s.header.stamps_ns.warp <= lost_ns for s in again
    )


def test_a_held_pose_is_not_shown_again() -> None:
    flight = StalledFlight(250, on_loss="hold")
    flight.fly(lambda ms: setattr(flight, "seen", ms < 200))
    assert flight.shown[-1].header.compensation["fallback"] in ("tracking stale", "tracking lost")
    assert flight.relay.repeated == 0


def test_a_frozen_picture_is_not_shown_again() -> None:
    flight = StalledFlight(100)
    flight.fly(lambda ms: setattr(flight.renderer, "frozen", ms >= 100))
    assert flight.relay.dropped["picture_frozen"] > 5
    assert flight.relay.repeated == 0


def test_both_pictures_of_a_pair_show_the_same_ticks() -> None:
    left = BridgeCamera(CameraModel("left", 8, 6, 1.2), "world", Transform.identity(), 50.0)
    right = replace(left, model=replace(left.model, name="right"), ticks=deque())
    asked_ns, delay_ns = 1000 * NS_PER_MS, left.delay.value_ns
    late: dict[str, list[tuple[int, int]]] = {}
    for camera in (left, right):
        view = View(camera.model, Modality.GRAY, Transform.identity(), asked_ns + delay_ns)
        request = RenderRequest(asked_ns, asked_ns, (view,), WorldSnapshot(asked_ns, ()))
        image = RenderedImage(view, np.zeros((6, 8), np.uint8))
        made = LateTicks(camera)
        made.shown = (
            CameraFrame(RenderedFrame(request, asked_ns, (image,)), (image,), None),
            asked_ns + delay_ns,
        )
        camera.ticks.extend(asked_ns + k * PERIOD_NS for k in range(1, 20))
        found = [
            made.next(t_ns, 0) for t_ns in range(asked_ns, asked_ns + 500 * NS_PER_MS, NS_PER_MS)
        ]
        late[camera.name] = [(tick.frame_id, tick.t_use_ns) for tick in found if tick is not None]
        assert made.due_ns(0) is None, "nothing wakes the relay beyond the limit"
    assert late["left"] == late["right"]
    assert [t_ns for _, t_ns in late["left"]] == [
        asked_ns + delay_ns + k * PERIOD_NS for k in range(1, 13)
    ]
    assert len({frame_id for frame_id, _ in late["left"]} - {asked_ns}) == 12


def test_a_relay_that_comes_late_shows_the_newest_tick_only() -> None:
    camera = BridgeCamera(CameraModel("front", 8, 6, 1.2), "world", Transform.identity(), 50.0)
    view = View(camera.model, Modality.GRAY, Transform.identity(), 0)
    image = RenderedImage(view, np.zeros((6, 8), np.uint8))
    made = LateTicks(camera)
    request = RenderRequest(1, 1, (view,), WorldSnapshot(0, ()))
    made.shown = CameraFrame(RenderedFrame(request, 1, (image,)), (image,), None), 1
    camera.ticks.extend(k * PERIOD_NS for k in range(1, 5))
    late = made.next(5 * PERIOD_NS + camera.delay.value_ns, 0)
    assert late is not None and late.t_use_ns == 4 * PERIOD_NS + camera.delay.value_ns
    assert not camera.ticks and made.next(5 * PERIOD_NS + camera.delay.value_ns, 0) is None


# --- delay estimate ----------------------------------------------------------------------------


def test_a_hiccup_does_not_move_the_estimate() -> None:
    delay = RunningDelay(30 * NS_PER_MS)
    for _ in range(20):
        delay.add(40 * NS_PER_MS)
    estimates = []
    for late_ms in (340, 320, 300, 280, 260, 40, 40, 40):
        delay.add(late_ms * NS_PER_MS)
        estimates.append(delay.value_ns)
    assert estimates == [40 * NS_PER_MS] * 8


def test_a_slow_first_picture_is_not_believed_and_a_new_delay_soon_is() -> None:
    delay = RunningDelay(30 * NS_PER_MS)
    delay.add(900 * NS_PER_MS)
    assert delay.value_ns == 30 * NS_PER_MS
    for _ in range(2):
        delay.add(55 * NS_PER_MS)
    assert delay.value_ns == 55 * NS_PER_MS
    for _ in range(15):
        delay.add(55 * NS_PER_MS)
    for _ in range(8):
        delay.add(90 * NS_PER_MS)
    assert delay.value_ns == 90 * NS_PER_MS
