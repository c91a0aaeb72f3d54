"""Markers of any source become humans and bodies on their way to the world."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from vil_bridge.config.marker_template import read_template
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.geometry import q_from_euler_zyx, q_rotate
from vil_bridge.core.types import ClockExchange, Markers, SourceEvent, SourceFrame, SourceReset
from vil_bridge.daemon.marker_bodies import MarkerBodies
from vil_bridge.runtime.supervisor import Status

TEMPLATE = """
anna:
  upper: {markers: [A1, A2, A3, A4]}
  lower: {markers: [B1, B2, B3, B4], parent: upper, origin: [A2, B1]}
box:
  box: {markers: [box/C1, C2, C3, C4]}
"""
RIGID_M = np.array([[0.0, 0.0, 0.0], [0.3, 0.0, 0.0], [0.1, 0.08, 0.0], [0.12, 0.0, 0.09]])
REST_M = np.vstack((RIGID_M, np.add(RIGID_M, (0.4, 0.0, 0.0)), np.add(RIGID_M, (0.0, 2.0, 0.0))))
LABELS = (
    *(f"anna/{part}{i}" for part in "AB" for i in range(1, 5)),
    *(f"box/C{i}" for i in range(1, 5)),
)
PERIOD_NS = 10_000_000
ROOT_M = REST_M[:4].mean(axis=0)


def template_file(folder: Path, text: str = TEMPLATE) -> Path:
    path = folder / "template.yaml"
    path.write_text(text)
    return path


def turned_m(number: int) -> np.ndarray:
    """All markers after a turn about the vertical through the room's origin."""
    return q_rotate(q_from_euler_zyx(0.01 * number, 0.0, 0.0), REST_M)


def frame(
    number: int, *hidden: str, labels: tuple[str, ...] = LABELS, p_m: np.ndarray | None = None
) -> SourceFrame:
    places = turned_m(number) if p_m is None else p_m
    tracked = np.array([label not in hidden for label in labels], dtype=np.bool_)
    return SourceFrame(
        source="lab",
        frame_number=number,
        t_foreign_ns=None,
        t_arrival_ns=number * PERIOD_NS,
        subjects=("gate", "box"),
        p_m=np.array([[1.0, 2.0, 3.0], [9.0, 9.0, 9.0]]),
        q_xyzw=np.tile((0.0, 0.0, 0.0, 1.0), (2, 1)),
        tracked=np.ones(2, dtype=np.bool_),
        markers=Markers(labels, places, tracked),
    )


def joint_m(number: int) -> np.ndarray:
    """Between A2 and B1."""
    return np.asarray(turned_m(number)[[1, 4]].mean(axis=0))


def test_markers_become_a_human_and_a_body_beside_those_of_the_source(tmp_path: Path) -> None:
    status = Status("lab")
    subjects = MarkerBodies(template_file(tmp_path), status)
    for number in range(40):
        seen = subjects.frame(frame(number))
        assert seen.subjects == ("gate", "box") and seen.tracked.all()
        assert seen.p_m[0].tolist() == [1.0, 2.0, 3.0]
        assert seen.p_m[1] == pytest.approx(turned_m(number)[8:].mean(axis=0), abs=1e-9), (
            "the template's box"
        )
        (anna,) = seen.skeletons
        assert (anna.model.bones, anna.model.parents) == (("upper", "lower"), (-1, 0))
        assert anna.tracked.all()
        assert anna.p_m[1] == pytest.approx(joint_m(number), abs=1e-9)
        assert anna.q_xyzw[0] == pytest.approx(q_from_euler_zyx(0.01 * number, 0.0, 0.0), abs=1e-9)
        assert seen.markers is not None and seen.markers.labels == LABELS
    assert status.counters["markers_followed"] == 40 * 12
    assert not status.counters["markers_occluded"] and not status.counters["markers_assigned"]
    assert status.facts["template"] == ["anna: followed by 8 markers", "box: followed by 4 markers"]


def test_one_model_whatever_the_fit_learns(tmp_path: Path) -> None:
    """The world keeps a skeleton's past for as long as its model is the same object."""
    subjects = MarkerBodies(template_file(tmp_path), Status("lab"))
    models = {id(subjects.frame(frame(number)).skeletons[0].model) for number in range(400)}
    assert len(models) == 1


def test_occluded_and_unlabeled_markers_are_counted(tmp_path: Path) -> None:
    status = Status("lab")
    subjects = MarkerBodies(template_file(tmp_path), status)
    subjects.frame(frame(0))
    seen = subjects.frame(frame(1, "anna/B4"))
    assert seen.skeletons[0].tracked.all(), "three markers are enough"
    seen = subjects.frame(frame(2, "anna/B3", "anna/B4"))
    assert seen.skeletons[0].tracked.tolist() == [True, False], "two are not"
    assert seen.skeletons[0].p_m[1] == pytest.approx(joint_m(2), abs=1e-6), "it follows its parent"
    labels = (*LABELS[:7], "", *LABELS[8:])
    assert subjects.frame(frame(3, labels=labels)).skeletons[0].tracked.all()
    assert status.counters["markers_occluded"] == 1 + 2
    assert status.counters["markers_assigned"] == 1
    assert status.counters["markers_followed"] == 12 + 11 + 10 + 11


def test_labels_without_the_subject_are_found(tmp_path: Path) -> None:
    bare = tuple(label.rpartition("/")[2] for label in LABELS)
    seen = MarkerBodies(template_file(tmp_path), Status("lab")).frame(frame(0, labels=bare))
    assert len(seen.skeletons) == 1 and seen.subjects == ("gate", "box")


def test_labels_that_never_come_are_told_at_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    status = Status("lab")
    subjects = MarkerBodies(template_file(tmp_path, TEMPLATE.replace("A3", "A9")), status)
    told = "anna: no markers anna/A9; the stream has anna/A1, anna/A2, anna/A3, anna/A4, anna/B1"
    for number in range(3):
        seen = subjects.frame(frame(number))
        assert not seen.skeletons and seen.subjects == ("gate", "box"), "the box is whole"
    assert status.facts["template"][0].startswith(told)
    warned = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warned) == 1 and "no markers anna/A9" in warned[0].getMessage(), "once"
    renamed = tuple(label.replace("A3", "A9") for label in LABELS)
    assert len(subjects.frame(frame(4, labels=renamed)).skeletons) == 1, "they may come later"
    assert status.facts["template"][0] == "anna: followed by 8 markers"


def test_a_stream_without_markers_is_told(tmp_path: Path) -> None:
    status = Status("lab")
    subjects = MarkerBodies(template_file(tmp_path), status)
    bare = replace(frame(0), markers=None)
    assert subjects.frame(bare) is bare
    assert "carry no markers" in status.facts["template"][0]
    subjects.frame(frame(1))
    assert status.facts["template"] == ["anna: followed by 8 markers", "box: followed by 4 markers"]


def test_a_subject_that_is_never_whole_is_told(tmp_path: Path) -> None:
    status = Status("lab")
    subjects = MarkerBodies(template_file(tmp_path), status)
    subjects.frame(frame(0, "anna/B2"))
    assert status.facts["template"][0] == "anna: waits for a frame that shows all 8 markers"
    assert not subjects.frame(frame(310, "anna/B2")).skeletons
    subjects.frame(frame(311, "anna/B2"))
    assert "no frame has shown all 8 markers at once (7 now)" in status.facts["template"][0]
    assert len(subjects.frame(frame(312)).skeletons) == 1


def test_markers_on_a_line_are_told_and_tried_again(tmp_path: Path) -> None:
    status = Status("lab")
    subjects = MarkerBodies(template_file(tmp_path), status)
    line_m = REST_M.copy()
    line_m[:4] = np.outer(np.arange(4), (0.1, 0.0, 0.0))
    assert not subjects.frame(frame(0, p_m=line_m)).skeletons
    assert "lie on one line: upper" in status.facts["template"][0]
    assert len(subjects.frame(frame(10)).skeletons) == 1


@pytest.mark.parametrize("nonsense", [np.nan, np.inf, 1e300])
def test_markers_that_are_no_places_are_not_seen(tmp_path: Path, nonsense: float) -> None:
    subjects = MarkerBodies(template_file(tmp_path), Status("lab"))
    subjects.frame(frame(0))
    broken_m = turned_m(1)
    broken_m[4:] = nonsense
    seen = subjects.frame(frame(1, p_m=broken_m))
    assert seen.skeletons[0].tracked.tolist() == [True, False] and seen.tracked.tolist() == [
        True,
        False,
    ]
    assert np.isfinite(seen.skeletons[0].p_m).all() and np.isfinite(seen.p_m).all()


def test_a_frame_without_any_marker_loses_everybody(tmp_path: Path) -> None:
    subjects = MarkerBodies(template_file(tmp_path), Status("lab"))
    subjects.frame(frame(0))
    seen = subjects.frame(frame(1, labels=(), p_m=np.empty((0, 3))))
    assert not seen.skeletons[0].tracked.any() and seen.tracked.tolist() == [True, False]


def test_other_events_pass_and_a_reset_forgets_where_a_subject_was(tmp_path: Path) -> None:
    events: list[SourceEvent] = []
    bodies = MarkerBodies(template_file(tmp_path), Status("lab"))
    exchange, reset = ClockExchange("lab", 1, 2, 3), SourceReset("lab", "again")
    for event in (exchange, frame(0), frame(50), reset, frame(51, *LABELS)):
        events.append(bodies.transformed(event))
    assert events[0] is exchange and events[3] is reset
    before, after = events[2], events[4]
    assert isinstance(before, SourceFrame) and isinstance(after, SourceFrame)
    assert before.skeletons[0].p_m[0] == pytest.approx(
        q_rotate(q_from_euler_zyx(0.5, 0.0, 0.0), ROOT_M), abs=1e-9
    )
    assert not after.skeletons[0].tracked.any()
    assert after.skeletons[0].p_m[0] == pytest.approx(ROOT_M, abs=1e-9), (
        "as in the template, not as before the reset"
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (TEMPLATE.replace("parent: upper", "parent: uper"), "no segment is named 'uper'"),
        (TEMPLATE.replace("[B1, B2, B3, B4]", "[B1]"), r"anna\.lower\.markers"),
        (TEMPLATE.replace("[B1,", "[A1,"), "on two segments: anna/A1"),
        (TEMPLATE.replace("markers: [A1", "marker: [A1"), r"anna\.upper\.marker"),
        ("anna: [", r"template\.yaml:1"),
        ("#" * (1 << 21), "larger than 1048576 bytes"),
    ],
)
def test_a_bad_template_is_refused_at_the_start(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        read_template(template_file(tmp_path, text))


def test_an_absent_template_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.yaml: cannot be read: No such file"):
        read_template(tmp_path / "absent.yaml")
