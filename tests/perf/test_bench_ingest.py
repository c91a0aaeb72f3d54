"""The bars of ``vil-bridge bench ingest`` (run by hand; not part of the timed gate)."""

from __future__ import annotations

import pytest

from vil_bridge.bench.ingest import bench_ingest

pytestmark = [pytest.mark.perf, pytest.mark.timeout(300)]


def test_ingestion_keeps_up_with_compiled_clients() -> None:
    rows = {row.name: row for row in bench_ingest()}
    for bodies in (1, 20, 100):
        assert rows[f"us_per_frame_{bodies}_bodies"].value is not None
    assert rows["us_per_frame_100_bodies_2_skeletons"].value is not None
    ratio = rows["ratio_to_motioncapture_20_bodies"].value
    assert ratio is not None, "the reference is not installed"
    share = rows["core_share_100_bodies_2_skeletons_1khz"].value
    assert share is not None
    assert ratio <= 2.0
    assert share <= 0.35
    assert (rows["frames_per_s_100_bodies_2_skeletons_1khz"].value or 0.0) > 900.0
