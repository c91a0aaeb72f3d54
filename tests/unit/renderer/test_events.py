"""The event camera against ramps and edges of which every event is known."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.render import (
    AHEAD,
    Renderers,
    camera,
    everybody,
    linear,
    moved,
    plate,
    scene_of,
    shot,
    thing,
)
from vil_bridge.core.errors import RendererError
from vil_bridge.core.types import Modality
from vil_bridge.optics.event_camera import EventCamera, Events
from vil_renderer.embedded.assets.model import Material

DARK = 1e-3
DT_NS = 2_000_000


def log_light(level: npt.ArrayLike) -> npt.NDArray[np.float64]:
    made: npt.NDArray[np.float64] = np.log(DARK + linear(level))
    return made


def flat(level: int, shape: tuple[int, ...] = (5, 7)) -> npt.NDArray[np.uint8]:
    return np.full(shape, level, np.uint8)


def watch(eye: EventCamera, levels: list[int]) -> list[Events]:
    return [eye.events(flat(level), i * DT_NS) for i, level in enumerate(levels)]


@pytest.mark.parametrize(
    ("levels", "sign"), [([30, 60, 61, 62, 120, 230], 1), ([230, 90, 89, 88, 20], -1)]
)
@pytest.mark.parametrize("threshold", [0.07, 0.2, 0.55])
def test_a_ramp_makes_as_many_events_as_thresholds_fit_into_it(
    levels: list[int], sign: int, threshold: float
) -> None:
    eye = EventCamera(threshold, threshold)
    seen = watch(eye, levels)
    assert len(seen[0].t_ns) == 0
    total = sum(len(e.t_ns) for e in seen)
    change = abs(float(log_light(levels[-1]) - log_light(levels[0])))
    assert total == 35 * math.floor(change / threshold)
    assert all(np.all(e.polarity == sign) for e in seen)
    each = np.zeros((5, 7), int)
    for e in seen:
        np.add.at(each, (e.y, e.x), 1)
    assert np.all(each == math.floor(change / threshold))


def test_thresholds_of_both_signs_are_their_own() -> None:
    up, down = 0.1, 0.35
    rise, fall = watch(EventCamera(up, down), [40, 200, 40])[1:]
    change = float(log_light(200) - log_light(40))
    assert len(rise.t_ns) == 35 * math.floor(change / up)
    left_over = change - math.floor(change / up) * up  # the way back starts above the last event
    assert len(fall.t_ns) == 35 * math.floor((change - left_over) / down)
    assert set(rise.polarity.tolist()) == {1}
    assert set(fall.polarity.tolist()) == {-1}


def test_events_come_when_the_interpolated_light_crosses_its_level() -> None:
    eye = EventCamera(0.15, 0.15)
    one, other = watch(eye, [50, 90, 180])[1:]
    level, last = float(log_light(50)), 0
    for number, events in enumerate((one, other)):
        before, after = (float(log_light(v)) for v in ((50, 90), (90, 180))[number])
        instants = events.t_ns[(events.x == 3) & (events.y == 2)]
        for t_ns in instants:
            level += 0.15
            assert t_ns == pytest.approx(
                (number + (level - before) / (after - before)) * DT_NS, abs=1.0
            )
            assert t_ns > last
            last = int(t_ns)
        assert level + 0.15 > after
    assert np.all(np.diff(one.t_ns) >= 0)


def test_what_does_not_change_is_not_reported() -> None:
    assert all(len(e.t_ns) == 0 for e in watch(EventCamera(0.05, 0.05), [100] * 5))


def test_an_edge_leaves_its_events_where_it_passed() -> None:
    """A bright bar that moves three pixels to the right: brighter ahead of it, darker behind."""
    height, width, bar, step = 6, 40, 10, 3

    def picture(at: int) -> npt.NDArray[np.uint8]:
        made = np.full((height, width), 40, np.uint8)
        made[:, at : at + bar] = 200
        return made

    eye, count = EventCamera(0.2, 0.25), float(log_light(200) - log_light(40))
    eye.events(picture(5), 0)
    events = eye.events(picture(5 + step), DT_NS)
    ahead, behind = events.polarity == 1, events.polarity == -1
    assert set(events.x[ahead].tolist()) == set(range(5 + bar, 5 + bar + step))
    assert set(events.x[behind].tolist()) == set(range(5, 5 + step))
    assert ahead.sum() == height * step * math.floor(count / 0.2)
    assert behind.sum() == height * step * math.floor(count / 0.25)
    assert set(events.y.tolist()) == set(range(height))
    assert events.t_ns.min() > 0
    assert events.t_ns.max() <= DT_NS
    kinds = [values.dtype for values in (events.t_ns, events.x, events.y, events.polarity)]
    assert kinds == [np.dtype(kind) for kind in (np.int64, np.uint16, np.uint16, np.int8)]


def test_a_pixel_rests_after_each_event() -> None:
    rest_s = 0.4e-3
    free, resting = (watch(EventCamera(0.02, 0.02, rest), [20, 120, 240]) for rest in (0.0, rest_s))
    pixel = [
        np.concatenate([e.t_ns[(e.x == 1) & (e.y == 1)] for e in seen]) for seen in (free, resting)
    ]
    assert len(pixel[1]) < len(pixel[0]) / 3
    assert min(b - a for a, b in pairwise(pixel[1])) >= rest_s * 1e9
    assert set(pixel[1].tolist()) <= set(pixel[0].tolist())
    assert pixel[1][0] == pixel[0][0]


def test_thresholds_scatter_from_pixel_to_pixel_as_told() -> None:
    levels, mean, sigma = (40, 220), 0.1, 0.015
    change = float(log_light(levels[1]) - log_light(levels[0]))

    def counted(seed: int) -> npt.NDArray[np.int64]:
        eye = EventCamera(mean, mean, 0.0, sigma, seed)
        eye.events(flat(levels[0], (100, 100)), 0)
        events = eye.events(flat(levels[1], (100, 100)), DT_NS)
        return np.bincount(events.y.astype(int) * 100 + events.x, minlength=10_000)

    first, again, other = counted(1), counted(1), counted(2)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    thresholds = change / (first + 0.5)
    assert np.median(thresholds) == pytest.approx(mean, rel=0.03)
    assert np.percentile(thresholds, 84) - np.percentile(thresholds, 16) == pytest.approx(
        2 * sigma, rel=0.1
    )


def test_colours_count_by_their_luminance() -> None:
    for rgb, weight in (((255, 0, 0), 0.2126), ((0, 255, 0), 0.7152), ((0, 0, 255), 0.0722)):
        eye = EventCamera(0.1, 0.1)
        eye.events(np.zeros((2, 2, 3), np.uint8), 0)
        events = eye.events(np.tile(np.array(rgb, np.uint8), (2, 2, 1)), DT_NS)
        assert len(events.t_ns) == 4 * math.floor(math.log((DARK + weight) / DARK) / 0.1)


def test_another_size_or_an_earlier_instant_starts_over() -> None:
    eye = EventCamera()
    eye.events(flat(10), 10)
    assert len(eye.events(flat(250, (4, 4)), 20).t_ns) == 0
    assert len(eye.events(flat(20, (4, 4)), 19).t_ns) == 0
    assert len(eye.events(flat(250, (4, 4)), 19).t_ns) == 0
    assert len(eye.events(flat(20, (4, 4)), 25).t_ns) > 0


@pytest.mark.parametrize(
    "bad",
    [
        {"threshold_positive": 0.0},
        {"threshold_negative": -1.0},
        {"refractory_s": -1e-3},
        {"sigma_threshold": -0.1},
        {"threshold_positive": math.nan},
    ],
)
def test_senseless_settings_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(RendererError, match="event camera"):
        EventCamera(**bad)  # type: ignore[arg-type]


@pytest.mark.gl
def test_a_drawn_edge_that_moves_right_brightens_on_one_side_and_darkens_on_the_other() -> None:
    renderers = Renderers()
    bar = plate((0, 0, 0), (0.25, 0, 0), (0, -4, 0), Material(base_colour=(0.6, 0.6, 0.6, 1.0)))
    back = plate((0, 0, 5), (20, 0, 0), (0, -20, 0), Material(base_colour=(0.05, 0.05, 0.05, 1.0)))
    renderer = renderers.of(
        scene_of(thing("back", back), thing("bar", bar, instance=2, movable=True)), "medium"
    )
    model, eye = camera(size=(160, 120)), EventCamera(0.3, 0.3)
    px_m = 2.0 / model.f_px  # one pixel at 2 m
    first, last = (
        79.5 + (side * 0.25 + np.array([0.0, 8.0]) * px_m) / px_m for side in (-1.0, 1.0)
    )
    seen = [
        eye.events(
            shot(
                renderer,
                model,
                Modality.GRAY,
                AHEAD,
                everybody(moved("bar", (i * 0.5 * px_m, 0.0, 2.0))),
            ),
            i * DT_NS,
        )
        for i in range(17)
    ]
    x, polarity = (np.concatenate([getattr(e, name) for e in seen]) for name in ("x", "polarity"))
    renderers.close()
    per_pixel = math.floor(math.log((DARK + 0.6) / (DARK + 0.05)) / 0.3)
    assert (polarity == 1).sum() == pytest.approx(8 * 120 * per_pixel, rel=0.02)
    assert (polarity == -1).sum() == pytest.approx(8 * 120 * per_pixel, rel=0.02)
    assert np.all((x[polarity == 1] > last[0] - 1) & (x[polarity == 1] < last[1] + 1))
    assert np.all((x[polarity == -1] > first[0] - 1) & (x[polarity == -1] < first[1] + 1))
