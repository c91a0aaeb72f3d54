"""Motion capture as a sensor: noise, time, and every kind of trouble with its stated frequency."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.support.sensors import at_rest, moving
from vil_bridge.core.geometry import q_conj, q_exp, q_log, q_mul
from vil_simulation.vehicles.sensors.mocap import Mocap, MocapParameters, MocapReading
from vil_simulation.vehicles.sensors.presets import ROOM_PRESETS
from vil_simulation.vehicles.sensors.sensor import SensorMount

_MS = 1_000_000
_MARKERS = ((0.1, 0.0, 0.0), (0.0, 0.1, 0.0), (-0.1, 0.0, 0.0), (0.0, -0.1, 0.03))


def _frames(
    parameters: MocapParameters, n: int, steps: int, step_ms: int = 5, spacing_m: float = 0.5
) -> list[Any]:
    mocap = Mocap(n, parameters, seed=21)
    places = np.stack((spacing_m * np.arange(n), np.zeros(n), np.ones(n)), axis=1)
    found = [mocap.sample(at_rest(n, step * step_ms * _MS, places)) for step in range(steps)]
    return [frame for frame in found if frame is not None]


def _places(n: int, spacing_m: float = 0.5) -> Any:
    return np.stack((spacing_m * np.arange(n), np.zeros(n), np.ones(n)), axis=1)


def test_a_perfect_room_is_the_truth_at_its_rate_and_latency() -> None:
    mocap = Mocap(
        3, MocapParameters(rate_hz=100.0, latency_s=0.012, mounting=SensorMount((0.0, 0.0, 0.1)))
    )
    seen: list[tuple[int, MocapReading]] = []
    for t in range(60):
        frame = mocap.sample(moving(t * _MS, [0, 1, 2]))
        if frame is not None:
            seen.append((t, frame))
    assert [(t, f.t_ns // _MS, f.number) for t, f in seen] == [
        (12, 0, 1),
        (22, 10, 2),
        (32, 20, 3),
        (42, 30, 4),
        (52, 40, 5),
    ]
    for t, frame in seen:
        assert frame.t_arrival_ns == t * _MS
        truth = moving(frame.t_ns, [0, 1, 2])
        np.testing.assert_allclose(frame.q_world_body, truth.q_world_body, atol=1e-12)
        up = q_mul(
            q_mul(truth.q_world_body, np.tile([0.0, 0.0, 0.1, 0.0], (3, 1))),
            q_conj(truth.q_world_body),
        )
        np.testing.assert_allclose(frame.p_world_m, truth.p_world_m + up[:, :3], atol=1e-12)
        assert frame.tracked.all()


def test_densities_scale_with_the_root_of_half_the_rate() -> None:
    frames = _frames(MocapParameters(rate_hz=200.0, position_m=5e-4, attitude_rad=5e-4), 300, 100)
    p = np.array([f.p_world_m for f in frames]) - _places(300)
    turns = q_log(np.array([f.q_world_body for f in frames]))
    assert p.std() == pytest.approx(5e-3, rel=0.02)
    assert turns.std() == pytest.approx(5e-3, rel=0.02)


def test_markers_give_the_least_squares_pose_and_its_spread() -> None:
    q = q_exp(np.array([0.3, -0.2, 2.0]))
    noise_m = 2e-4
    quiet = Mocap(2, MocapParameters(markers_body_m=_MARKERS)).sample(
        at_rest(2, 0, (5.0, 6.0, 1.0), q)
    )
    assert quiet is None
    mocap = Mocap(
        4000, MocapParameters(markers_body_m=_MARKERS, marker_noise_m=noise_m, latency_s=0.0)
    )
    frame = mocap.sample(at_rest(4000, 0, (5.0, 6.0, 1.0), q))
    assert frame is not None
    turn = q_log(q_mul(q_conj(np.broadcast_to(q, (4000, 4))), frame.q_world_body))
    rest = np.array(_MARKERS)
    middle = rest.mean(axis=0)
    arms = rest - middle
    # The normal equations of small rotations: sum of |r|^2 1 - r r^T.
    inertia = np.square(arms).sum() * np.eye(3) - arms.T @ arms
    spread = noise_m * np.sqrt(np.diag(np.linalg.inv(inertia)))
    np.testing.assert_allclose(turn.std(axis=0), spread, rtol=0.04)
    assert np.abs(turn.mean(axis=0)).max() < 5.0 * spread.max() / math.sqrt(4000.0)
    # The body's origin is not the markers' middle: turning moves it too.
    expected = noise_m * math.sqrt(
        3.0 / 4.0
        + np.trace(
            np.linalg.inv(inertia) @ (middle @ middle * np.eye(3) - np.outer(middle, middle))
        )
    )
    error = np.linalg.norm(frame.p_world_m - (5.0, 6.0, 1.0), axis=1)
    assert math.sqrt(np.square(error).mean()) == pytest.approx(expected, rel=0.03)


def test_hidden_markers_make_no_pose_when_fewer_than_three_are_left() -> None:
    frames = _frames(
        MocapParameters(markers_body_m=_MARKERS, marker_hidden=0.3, latency_s=0.0), 500, 20
    )
    tracked = np.mean([f.tracked for f in frames])
    assert tracked == pytest.approx(0.7**4 + 4.0 * 0.3 * 0.7**3, abs=0.02)
    for frame in frames:
        np.testing.assert_allclose(
            frame.p_world_m[frame.tracked], _places(500)[frame.tracked], atol=1e-9
        )


def test_occlusions_come_as_often_and_last_as_long_as_stated() -> None:
    frames = _frames(
        MocapParameters(rate_hz=100.0, occlusions_hz=0.5, occlusion_s=0.4, latency_s=0.0),
        400,
        1000,
        10,
    )
    hidden = ~np.array([f.tracked for f in frames])
    assert hidden.mean() == pytest.approx(0.4 / (0.4 + 2.0), rel=0.05)
    begins = (hidden[1:] & ~hidden[:-1]).sum()
    assert begins / (400 * 10.0) == pytest.approx(1.0 / 2.4, rel=0.05)
    lost = np.array([f.p_world_m for f in frames])[hidden]
    assert not lost.any()


def test_labels_are_exchanged_in_pairs_with_the_nearest_and_come_back() -> None:
    n = 6
    frames = _frames(
        MocapParameters(rate_hz=50.0, swaps_hz=0.3, swap_s=0.3, latency_s=0.0), n, 1500, 20
    )
    label = np.array([np.rint(f.p_world_m[:, 0] / 0.5).astype(int) for f in frames])
    own = np.arange(n)
    swapped = label != own
    # One's own swap or a neighbour's begins 0.6 times a second and lasts for 0.3 s.
    assert swapped.mean() == pytest.approx(0.18 / 1.18, abs=0.03)
    rows = np.arange(len(label))[:, None]
    np.testing.assert_array_equal(label[rows, label], np.broadcast_to(own, label.shape))
    assert np.abs(label - own).max() <= 2
    apart = _frames(MocapParameters(swaps_hz=5.0, latency_s=0.0), n, 200, spacing_m=3.0)
    assert all(np.array_equal(f.p_world_m[:, 0], 3.0 * own) for f in apart)


def test_spikes_last_one_frame_and_point_anywhere() -> None:
    frames = _frames(MocapParameters(spikes=0.01, spike_m=0.7, latency_s=0.0), 500, 400)
    jump = np.array([f.p_world_m for f in frames]) - _places(500)
    size = np.linalg.norm(jump, axis=2)
    hit = size > 1e-9
    assert hit.mean() == pytest.approx(0.01, rel=0.1)
    np.testing.assert_allclose(size[hit], 0.7, rtol=1e-9)
    np.testing.assert_allclose(jump[hit].mean(axis=0), 0.0, atol=0.05)
    np.testing.assert_allclose(jump[hit].std(axis=0), 0.7 / math.sqrt(3.0), rtol=0.07)


def test_a_vehicle_without_a_place_is_not_tracked_and_troubles_nobody() -> None:
    lost = _places(4)
    lost[2] = np.nan
    parameters = replace(ROOM_PRESETS["bad"], swaps_hz=5.0, latency_s=0.0, jitter_s=0.0, loss=0.0)
    alone, beside = Mocap([0, 1, 3], parameters, seed=4), Mocap(4, parameters, seed=4)
    swapped = 0
    for step in range(300):
        one = alone.sample(at_rest(3, step * 10 * _MS, _places(4)[[0, 1, 3]]))
        other = beside.sample(at_rest(4, step * 10 * _MS, lost))
        assert one is not None and other is not None
        assert not other.tracked[2] and not other.p_world_m[2].any()
        np.testing.assert_array_equal(other.tracked[[0, 1, 3]], one.tracked)
        np.testing.assert_allclose(other.p_world_m[[0, 1, 3]], one.p_world_m, atol=1e-12)
        swapped += int(one.tracked[0] and abs(one.p_world_m[0, 0] - 0.5) < 0.1)
    assert swapped > 50


def test_lost_frames_leave_gaps_in_the_numbers() -> None:
    frames = _frames(MocapParameters(loss=0.2), 1, 1500)
    numbers = np.array([f.number for f in frames])
    assert len(numbers) / numbers[-1] == pytest.approx(0.8, abs=0.04)
    assert (np.diff(numbers) >= 1).all()


def test_jitter_delays_frames_and_keeps_their_order() -> None:
    frames = _frames(
        MocapParameters(rate_hz=100.0, latency_s=0.01, jitter_s=0.004), 1, 10_000, step_ms=1
    )
    delay = np.array([f.t_arrival_ns - f.t_ns for f in frames]) * 1e-9
    assert delay.min() >= 0.01
    # Waiting for those before it lengthens the mean of 14 ms a little: e^-2.5 wait, 4 ms on
    # average.
    assert delay.mean() == pytest.approx(0.0143, abs=0.0005)
    assert (np.diff([f.t_arrival_ns for f in frames]) >= 0).all()
    assert (np.diff([f.t_ns for f in frames]) == 10 * _MS).all()


def test_the_rooms_clock_is_off_and_drifts() -> None:
    frames = _frames(MocapParameters(clock_offset_s=100.0, clock_drift_ppm=50.0), 1, 400)
    for frame in frames:
        assert frame.t_room_ns == pytest.approx(100 * 10**9 + frame.t_ns * (1.0 + 50e-6), abs=1.0)


def test_a_frame_becomes_what_a_source_emits() -> None:
    frame = _frames(MocapParameters(clock_offset_s=7.0, occlusions_hz=50.0), 2, 40)[-1]
    emitted = frame.source_frame("room", ["drone", "rover"])
    assert (emitted.source, emitted.subjects) == ("room", ("drone", "rover"))
    assert (emitted.frame_number, emitted.t_foreign_ns) == (frame.number, frame.t_ns + 7 * 10**9)
    assert emitted.t_arrival_ns == frame.t_ns + 5 * _MS
    np.testing.assert_array_equal(emitted.tracked, frame.tracked)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        (
            {"markers_body_m": ((0.0, 0.0, 0.0), (0.1, 0.0, 0.0), (0.2, 0.0, 0.0))},
            "not on one line",
        ),
        ({"markers_body_m": _MARKERS[:2]}, "at least three"),
        ({"loss": 1.5}, "loss is a probability"),
        ({"swaps_hz": -1.0}, "swaps_hz must not be negative"),
        ({"rate_hz": 0.0}, "rate_hz must be positive"),
    ],
)
def test_an_impossible_room_is_refused(wrong: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        Mocap(1, MocapParameters(**wrong))
