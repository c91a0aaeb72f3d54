"""Real people of ``vil-bridge bench people``: their list, and how their pictures are cut."""

from __future__ import annotations

import numpy as np
import pytest

from vil_bridge.tools.bench.people_real import (
    RealPerson,
    RealShot,
    alone_rows,
    brought_to,
    cut_about,
    far_rows,
    found_one,
    inside,
    read_people,
)
from vil_bridge.tools.bench.realism.real_set import RealPicture

_SIZE_PX = (1280, 720)


def person(left: float, top: float, right: float, bottom: float, whole: bool = True) -> RealPerson:
    picture = RealPicture("things", "1.0", "sdist", "MIT", "a.png", None, 64 * "0", "room", "man")
    return RealPerson(picture, (left, top, right, bottom), whole)


def test_the_list_has_what_the_comparison_promises() -> None:
    people = read_people()
    whole = [p for p in people if p.whole]
    assert len(whole) >= 30
    assert len({p.picture.package for p in whole}) >= 3
    assert len({(p.picture.sha256, p.picture.frame, p.box_px) for p in people}) == len(people)
    for p in people:
        left, top, right, bottom = p.box_px
        assert 0.0 <= left < right
        assert 0.0 <= top < bottom
        assert p.picture.licence
        assert len(p.picture.sha256) == 64


def test_a_person_is_as_high_in_the_cut_as_ours() -> None:
    cut = cut_about(person(380.0, 200.0, 420.0, 300.0), (600, 800), 320.0, _SIZE_PX)
    assert cut is not None
    assert (cut[2] - cut[0], cut[3] - cut[1]) == pytest.approx((400.0, 225.0))
    assert (0.5 * (cut[0] + cut[2]), 0.5 * (cut[1] + cut[3])) == pytest.approx((400.0, 250.0))


def test_cuts_stay_inside_their_pictures() -> None:
    assert cut_about(person(0.0, 0.0, 40.0, 100.0), (600, 800), 320.0, _SIZE_PX) == pytest.approx(
        (0.0, 0.0, 400.0, 225.0)
    )
    assert cut_about(person(380.0, 200.0, 420.0, 300.0), (600, 399), 320.0, _SIZE_PX) is None, (
        "no room"
    )
    assert cut_about(person(380.0, 200.0, 420.0, 255.0), (600, 800), 320.0, _SIZE_PX) is None, (
        "too few pixels"
    )
    assert (
        cut_about(person(380.0, 200.0, 420.0, 300.0, whole=False), (600, 800), 320.0, _SIZE_PX)
        is None
    )


def test_the_cut_is_what_is_brought_to_our_size() -> None:
    pixels = np.zeros((600, 800, 3), np.uint8)
    pixels[200:300, 380:420] = 255
    made = brought_to(pixels, (200.0, 137.5, 600.0, 362.5), _SIZE_PX)
    assert made.shape == (720, 1280, 3)
    rows = np.flatnonzero(made[:, 640, 0] > 127)
    assert len(rows) == pytest.approx(320, abs=4)


def test_landmarks_count_in_the_box_and_close_to_it() -> None:
    box = (100.0, 100.0, 140.0, 200.0)
    assert inside(box, np.array([(120.0, 150.0), (86.0, 190.0)]))
    assert not inside(box, np.array([(160.0, 150.0)]))


def test_a_real_picture_counts_where_somebody_of_it_is_found() -> None:
    shot = RealShot(
        "a", 0, 5.0, ((100.0, 100.0, 140.0, 200.0), (300.0, 100.0, 340.0, 200.0)), False
    )
    assert found_one(shot, np.array([(320.0, 150.0)]))
    assert not found_one(shot, np.array([(220.0, 150.0)]))
    assert not found_one(shot, np.zeros((0, 2)))
    empty = RealShot("b", -1, 0.0, (), False)
    assert found_one(empty, np.array([(220.0, 150.0)])), "a false one"
    assert not found_one(empty, np.zeros((0, 2)))


def test_distances_weigh_alike_in_the_comparison() -> None:
    ours = {5.0: np.array([1.0, 1.0, 1.0, 0.0]), 10.0: np.array([0.0, 1.0])}
    real = {5.0: np.array([1.0] * 9 + [0.0]), 10.0: np.zeros(2)}
    rows = {row.name: row for row in far_rows(ours, real, 10)}
    assert rows["detected_share_real_5_10_m"].value == pytest.approx(0.45)
    assert rows["detected_share_5_10_m/5.0"].value == 0.75
    assert rows["detected_share_real_5_10_m/10.0"].value == 0.0
    assert rows["detected_5_10_m_gap"].value == pytest.approx(0.625 - 0.45)
    variance = (0.75 * 0.25 / 4 + 0.5 * 0.5 / 2) / 4 + 0.45 * 0.55 / 10
    assert rows["detected_5_10_m_gap_sd"].value == pytest.approx(variance**0.5)
    assert rows["detected_5_10_m_within"].value == 1.0
    worse = {row.name: row for row in far_rows({d: np.zeros(4) for d in ours}, real, 10)}
    assert worse["detected_5_10_m_within"].value == 0.0


def test_ours_are_held_against_people_alone_at_the_distances_of_those() -> None:
    ours = {5.0: np.array([1.0, 1.0, 1.0, 0.0]), 10.0: np.array([0.0, 1.0]), 7.0: np.zeros(9)}
    alone = {5.0: np.array([1.0, 1.0, 0.0]), 10.0: np.array([1.0])}
    rows = {row.name: row for row in alone_rows(ours, alone)}
    assert rows["detected_share_real_5_10_m_alone"].value == 0.75
    assert rows["detected_share_real_5_10_m_alone"].samples == 4
    assert rows["detected_share_5_10_m_as_alone"].value == pytest.approx((3 * 0.75 + 0.5) / 4)
    assert alone_rows(ours, {})[0].value is None
