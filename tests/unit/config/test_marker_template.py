"""Labelled templates: exact on rigid segments, sure of what it cannot know, and true to a real
capture.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.common import data_dir
from vil_bridge.bodies.marker_tracking import MarkerTemplate, MarkerTracker, Segment
from vil_bridge.core.geometry import q_conj, q_from_euler_zyx, q_log, q_mul, q_rotate
from vil_bridge.core.types import BoolArray, FloatArray, Markers

ARM = (
    Segment("upper", ("S", "E", "B", "C"), origin=("S",)),
    Segment("lower", ("F", "G", "H"), parent="upper", origin=("E",)),
)
LABELS = ("S", "E", "B", "C", "F", "G", "H", "stray")
UPPER = np.array([[0.0, 0.0, 0.0], [0.3, 0.0, 0.0], [0.15, 0.05, 0.03], [0.1, -0.04, 0.05]])
LOWER = np.array([[0.05, 0.02, 0.03], [0.2, 0.03, -0.02], [0.25, -0.03, 0.01]])


def pose(t: float) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Shoulder, its attitude, elbow, its attitude; at t = 0 both attitudes are the room's."""
    q_upper = q_from_euler_zyx(0.8 * t, 0.3 * np.sin(t), 0.5 * t)
    q_lower = q_mul(q_upper, q_from_euler_zyx(0.0, -0.9 * np.sin(2.0 * t), 0.2 * t))
    shoulder = np.array([0.1 * t, 1.0, 1.4])
    return shoulder, q_upper, shoulder + q_rotate(q_upper, UPPER[1]), q_lower


def markers(t: float) -> FloatArray:
    shoulder, q_upper, elbow, q_lower = pose(t)
    upper, lower = shoulder + q_rotate(q_upper, UPPER), elbow + q_rotate(q_lower, LOWER)
    return np.vstack((upper, lower, [[9.0, 9.0, 9.0]]))


TIMES = np.linspace(0.0, 2.0, 60)
TRUTH = np.array([markers(t) for t in TIMES])
SEEN = np.ones(TRUTH.shape[:2], dtype=np.bool_)


def fitted() -> MarkerTemplate:
    return MarkerTemplate.fit("arm", ARM, LABELS, TRUTH, SEEN)


def angle_deg(a: FloatArray, b: FloatArray) -> float:
    return float(np.degrees(np.linalg.norm(q_log(q_mul(q_conj(a), b)))))


def test_rigid_segments_are_found_exactly() -> None:
    template = fitted()
    assert (template.model.bones, template.model.parents) == (("upper", "lower"), (-1, 0))
    assert template.model.offsets_m[1] == pytest.approx(UPPER[1], abs=1e-9), (
        "the elbow, in the upper arm's axes"
    )
    assert template.rest_m[:4] == pytest.approx(UPPER, abs=1e-9)
    assert template.rest_m[4:] == pytest.approx(LOWER, abs=1e-9)
    assert template.wobble_m == pytest.approx(np.zeros(7), abs=1e-9)
    tracker = MarkerTracker(template)
    for t in TIMES:
        frame = tracker.follow(Markers(LABELS, markers(t), SEEN[0]))
        shoulder, q_upper, elbow, q_lower = pose(t)
        assert frame.tracked.all()
        assert frame.p_m == pytest.approx(np.array([shoulder, elbow]), abs=1e-9)
        assert (
            angle_deg(frame.q_xyzw[0], q_upper) < 1e-5
            and angle_deg(frame.q_xyzw[1], q_lower) < 1e-5
        )


@pytest.mark.parametrize("hidden", [[0], [1], [3]])
def test_hidden_markers_are_where_their_segment_carries_them(hidden: list[int]) -> None:
    tracker = MarkerTracker(fitted())
    visible = SEEN[0].copy()
    visible[hidden] = False
    for t in TIMES:
        p_m = markers(t)
        p_m[hidden] = np.nan
        frame = tracker.follow(Markers(LABELS, p_m, visible))
        assert frame.tracked.all()
        assert tracker.p_m == pytest.approx(markers(t)[:7], abs=1e-8)


def test_a_segment_with_too_few_markers_follows_its_parent_untracked() -> None:
    tracker = MarkerTracker(fitted())
    before = tracker.follow(Markers(LABELS, TRUTH[10], SEEN[10]))
    visible = SEEN[0].copy()
    visible[[5, 6]] = False
    for row in range(11, 20):
        frame = tracker.follow(Markers(LABELS, TRUTH[row], visible))
        assert frame.tracked.tolist() == [True, False]
        _, q_upper, elbow, _ = pose(TIMES[row])
        assert frame.p_m[1] == pytest.approx(elbow, abs=1e-9), "the joint stays on the parent"
        relative = q_mul(q_conj(before.q_xyzw[0]), before.q_xyzw[1])
        assert angle_deg(q_mul(q_upper, relative), frame.q_xyzw[1]) < 1e-5, "as it last stood to it"


def test_markers_on_a_line_fix_no_pose() -> None:
    straight = TRUTH.copy()
    straight[:, 2] = 0.5 * (straight[:, 0] + straight[:, 1])
    tracker = MarkerTracker(MarkerTemplate.fit("arm", ARM, LABELS, straight, SEEN))
    visible = SEEN[0].copy()
    visible[3] = False  # S, B and E stand on one line
    frame = tracker.follow(Markers(LABELS, straight[5], visible))
    assert frame.tracked.tolist() == [False, True]


def test_nothing_seen_at_all_stays_where_it_was() -> None:
    tracker = MarkerTracker(fitted())
    before = tracker.follow(Markers(LABELS, TRUTH[30], SEEN[0]))
    frame = tracker.follow(Markers(LABELS, np.full_like(TRUTH[0], np.nan), ~SEEN[0]))
    assert not frame.tracked.any()
    assert frame.p_m == pytest.approx(before.p_m) and frame.q_xyzw == pytest.approx(before.q_xyzw)


def test_unlabeled_markers_are_taken_for_the_hidden_ones_nearby() -> None:
    """Two labels are lost.

    Their markers come without, in another order, with a third one far away.
    """
    labels = (*LABELS[:4], "", "", "")
    tracker = MarkerTracker(MarkerTemplate.fit("arm", ARM, LABELS, TRUTH, SEEN))
    tracker.follow(Markers(LABELS, TRUTH[0], SEEN[0]))
    for row in range(1, len(TRUTH)):
        loose = TRUTH[row][[6, 4, 5]]
        frame = tracker.follow(
            Markers(labels, np.vstack((TRUTH[row][:4], loose)), np.ones(7, dtype=np.bool_))
        )
        assert frame.tracked.all(), row
        assert tracker.p_m == pytest.approx(TRUTH[row][:7], abs=1e-9)
    assert tracker.matched == 3 * (len(TRUTH) - 1)


def test_far_unlabeled_markers_are_left_alone() -> None:
    labels = (*LABELS[:4], "", "", "")
    tracker = MarkerTracker(fitted())
    tracker.follow(Markers(LABELS, TRUTH[0], SEEN[0]))
    p_m = np.vstack((TRUTH[1][:4], TRUTH[1][4:7] + 0.2))
    assert tracker.follow(Markers(labels, p_m, np.ones(7, dtype=np.bool_))).tracked.tolist() == [
        True,
        False,
    ]
    assert tracker.matched == 0


@pytest.mark.parametrize(
    ("segments", "told"),
    [
        ((Segment("a", ("S", "E", "X")),), "no markers X; there are B, C"),
        ((Segment("a", ("S", "E")),), "2 markers, 3 fix a pose"),
        ((Segment("a", ("S", "E", "B")), Segment("b", ("S", "F", "G"))), "on two segments: S"),
        ((Segment("a", ("S", "E", "B"), "z"),), "no segment is named 'z'"),
        (
            (Segment("a", ("S", "E", "B"), "b"), Segment("b", ("F", "G", "H"), "a")),
            "hangs on itself",
        ),
        ((Segment("a", ("S", "E", "B")), Segment("a", ("F", "G", "H"))), "names of their own"),
    ],
)
def test_templates_that_cannot_be_are_refused(segments: tuple[Segment, ...], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        MarkerTemplate.fit("arm", segments, LABELS, TRUTH, SEEN)


def test_a_template_needs_one_frame_that_shows_everything() -> None:
    with pytest.raises(ValueError, match="no frame shows all 7 markers"):
        MarkerTemplate.fit("arm", ARM, LABELS, TRUTH, SEEN & (np.arange(8) != 2))


# --- a real capture -------------------------------------------------------------------------------

PERSON = {
    "pelvis": (None, "ASISr ASISl PSISr PSISl"),
    "thorax": ("pelvis", "STERr STERl STER XIPH T1 T10"),
    "clavicle": ("thorax", "CLAV_SC CLAVm CLAV_ant CLAV_post CLAVl CLAV_AC"),
    "scapula": ("clavicle", "ACRO_tip SCAP_AA SCAPl SCAPm SCAP_CP SCAP_RS SCAP_SA SCAP_IA"),
    "upper_arm": ("scapula", "DELT ARMl ARMm ARMp_up ARMp_do EPICl EPICm"),
    "lower_arm": ("upper_arm", "LARMm LARMl LARM_elb LARM_ant STYLr STYLr_up STYLu WRIST"),
    "hand": ("lower_arm", "INDEX LASTC MEDH LATH"),
}


def capture() -> tuple[tuple[str, ...], FloatArray, BoolArray]:
    pytest.importorskip("c3d", reason="the package is not installed (extra c3d)")
    from vil_adapters.recording.formats import open_recording

    track = open_recording(data_dir("markers") / "markers_analogs.c3d").markers
    assert track is not None and len(track.labels) == 51 and len(track.p_m) == 580
    assert 0.005 < 1.0 - track.tracked.mean() < 0.015, "one percent is occluded"
    return track.labels, track.p_m, track.tracked


def both_subjects(
    labels: tuple[str, ...], p_m: FloatArray, tracked: BoolArray
) -> list[MarkerTemplate]:
    person = [
        Segment(name, tuple(f"Daphnee/{m}" for m in names.split()), parent)
        for name, (parent, names) in PERSON.items()
    ]
    box = [Segment("box", tuple(label for label in labels if label.startswith("boite/")))]
    return [
        MarkerTemplate.fit(name, segments, labels, p_m, tracked)
        for name, segments in (("p", person), ("box", box))
    ]


def test_a_real_capture_is_followed_through_its_occlusions() -> None:
    labels, p_m, tracked = capture()
    for template in both_subjects(labels, p_m, tracked):
        columns = [labels.index(label) for label in template.labels]
        tracker = MarkerTracker(template)
        shown, known = [], []
        for row in range(len(p_m)):
            frame = tracker.follow(Markers(labels, p_m[row], tracked[row]))
            shown.append(tracker.p_m)
            known.append(frame.tracked)
        steps_m = np.linalg.norm(np.diff(shown, axis=0), axis=2)
        seen = tracked[:, columns]
        real_m = steps_m[seen[1:] & seen[:-1]].max()
        at_edges_m = steps_m[seen[1:] != seen[:-1]]
        print(
            f"{template.model.name}: largest step at an occlusion {1e3 * at_edges_m.max():.1f} mm"
        )
        assert at_edges_m.max() < real_m, "no jump where a marker goes or comes"
        assert np.mean(known) > 0.995


def test_markers_hidden_on_purpose_are_expected_within_millimetres() -> None:
    """Half-second occlusions of up to all but three markers of every segment at once."""
    labels, p_m, tracked = capture()
    random = np.random.default_rng(1)
    for template, median_mm, p95_mm in zip(
        both_subjects(labels, p_m, tracked), (5.0, 1.0), (25.0, 5.0), strict=True
    ):
        columns = np.array([labels.index(label) for label in template.labels])
        errors_m: list[FloatArray] = []
        for _ in range(2):
            hidden = np.zeros((len(p_m), len(columns)), dtype=np.bool_)
            for start in range(10, len(p_m) - 50, 60):
                for segment in range(len(template.model.bones)):
                    members = np.flatnonzero(template.segments == segment)
                    count = random.integers(1, len(members) - 2)
                    hidden[start : start + 50, random.choice(members, count, replace=False)] = True
            visible = tracked.copy()
            visible[:, columns] &= ~hidden
            tracker = MarkerTracker(template)
            for row in range(len(p_m)):
                tracker.follow(Markers(labels, p_m[row], visible[row]))
                known = hidden[row] & tracked[row, columns]
                errors_m.append(
                    np.linalg.norm(tracker.p_m[known] - p_m[row, columns][known], axis=1)
                )
        errors_mm = 1e3 * np.concatenate(errors_m)
        median, p95 = np.percentile(errors_mm, (50, 95))
        print(
            f"{template.model.name}: {len(errors_mm)} hidden, median {median:.2f} mm, p95 "
            f"{p95:.2f} mm"
        )
        assert median < median_mm and p95 < p95_mm
