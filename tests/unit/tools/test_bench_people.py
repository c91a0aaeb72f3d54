"""``vil-bridge bench people``: places of people and cameras, and what counts as found."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

from vil_bridge.core.types import FloatArray
from vil_bridge.tools.bench import people
from vil_bridge.tools.bench.people import PersonShot, RealFound, hit, shots_of
from vil_bridge.tools.bench.people_real import RealShot
from vil_renderer.embedded import load_scene
from vil_renderer.embedded.actors.people.builds import BUILDS


@pytest.fixture(scope="module")
def shots() -> list[PersonShot]:
    return list(shots_of(load_scene("empty")))


def test_every_human_is_seen_from_eight_directions_at_both_ranges(shots: list[PersonShot]) -> None:
    for kind, low_m, high_m in (("near", 2.0, 5.0), ("far", 5.0, 10.0)):
        chosen = [shot for shot in shots if shot.kind == kind]
        assert len(chosen) == 8 * len(BUILDS)
        for shot in chosen:
            assert shot.person is not None
            assert shot.person.prefab == shot.name.split("-")[2]
            gap = (shot.camera.p_m - shot.person.T_world_body.p_m)[:2]
            assert low_m - 0.05 < np.linalg.norm(gap) < high_m + 0.05
            left, top, right, bottom = shot.box_px
            assert 0.0 < left < right < 1280.0
            assert 0.0 < top < bottom
            assert bottom < 720.0 or np.linalg.norm(gap) < 3.0, (
                "feet are out of the picture of a near camera only"
            )
    assert sum(shot.kind == "empty" for shot in shots) == 8 * len(BUILDS)


def test_landmarks_count_where_the_person_is(shots: list[PersonShot]) -> None:
    shot = next(shot for shot in shots if shot.kind == "near")
    left, top, right, bottom = shot.box_px
    there = np.array([(0.5 * (left + right), 0.5 * (top + bottom))])
    assert hit(shot, there)
    assert not hit(shot, there + np.array([3.0 * (right - left) + 200.0, 0.0]))
    assert not hit(shot, np.zeros((0, 2)))
    empty = replace(shot, person=None)
    assert hit(empty, there), "a false one"
    assert not hit(empty, np.zeros((0, 2)))


def test_each_threshold_has_rows_of_its_own(shots: list[PersonShot]) -> None:
    def centre(shot: PersonShot) -> FloatArray:
        left, top, right, bottom = shot.box_px
        return np.array([(0.5 * (left + right), 0.5 * (top + bottom))])

    found = {shot.name: centre(shot) for shot in shots}
    missed = {shot.name: np.zeros((0, 2)) for shot in shots}
    near = next(shot for shot in shots if shot.kind == "near").name
    real = RealFound(
        (),
        (RealShot("real-empty-0", -1, 0.0, (), False),),
        {"0.7": {"real-empty-0": np.zeros((0, 2))}},
    )
    for marks, share, false in (
        (found, 1.0, 1.0),
        (missed, 0.0, 0.0),
        (missed | {near: found[near]}, 1 / 40, 0.0),
    ):
        rows = {row.name: row.value for row in people._rows(shots, marks, real, "0.7")}
        assert rows["detected_share_2_5_m"] == pytest.approx(share)
        assert rows["false_share"] == false
        assert rows["false_share_real"] == 0.0


@pytest.mark.process
def test_rows_have_no_value_without_a_detector(
    shots: list[PersonShot], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("VIL_BENCH_PYTHON", sys.executable)
    monkeypatch.setattr(people, "SCENES", {})
    rows = {row.name: row for row in people.bench_people()}
    assert rows["detected_share_2_5_m"].value is None
    assert rows["false_share"].value is None
    assert rows["detected_share_real_5_10_m"].value is None
    assert rows["detected_5_10_m_within"].value is None
    assert rows["false_share_real"].value is None
    assert {name for name in rows if "@" not in name} == {
        name.removesuffix("@0.7") for name in rows if "@" in name
    }
    assert "the person detector does not run" in caplog.text
