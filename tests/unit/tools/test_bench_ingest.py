"""Figures of `vil-bridge bench ingest`: frames that are lost make no row look better."""

from __future__ import annotations

import pytest

from vil_benchmarks.ingest import Taken, cold_rows


def test_a_receiver_that_loses_frames_has_no_figure() -> None:
    assert Taken([300.0, 100.0, 200.0], [1.0, 0.995, 1.0]).us_per_frame == 200.0
    lossy = Taken([30.0, 10.0, 20.0], [0.6, 0.66, 0.994])
    assert lossy.us_per_frame is None
    assert lossy.passed_on == pytest.approx(0.66)
    assert Taken().us_per_frame is None and Taken().passed_on is None


def test_the_world_alone_has_rows_at_once_and_after_a_sleep() -> None:
    rows = {row.name: row for row in cold_rows(turns=3)}
    parts = ("ingest_us_p50_20_bodies", "snapshot_us_p50_20_bodies")
    assert list(rows) == [f"{kind}_{part}" for kind in ("warm", "cold") for part in parts]
    assert all(
        row.samples == 3 and row.value is not None and row.value > 0.0 for row in rows.values()
    )
