"""`vil-bridge bench stream` on a small scale: every row is there and says what its name says."""

from __future__ import annotations

import pytest

from vil_bridge.tools.bench.report import Row
from vil_bridge.tools.bench.stream import overload_rows, shm_rows, sustained_rows, warp_rows

pytestmark = pytest.mark.wire


def values(rows: list[Row]) -> dict[str, float]:
    assert all(row.value is not None and row.samples for row in rows), rows
    return {row.name: row.value for row in rows if row.value is not None}


def test_warps_are_compared_with_the_bare_one() -> None:
    found = values(warp_rows(turns=4))
    assert set(found) == {
        "warp_ratio_1024x768_rgb",
        "depth_aware_ratio_1024x768_rgb",
        "gray_before_warp_ratio_1024x768",
        "warp_cpu_ms_bare_1024x768_rgb",
    }
    assert 0.5 < found["warp_ratio_1024x768_rgb"] < 5.0
    assert found["gray_before_warp_ratio_1024x768"] < 1.2, "usually 0.7"


@pytest.mark.long
def test_pictures_flow_as_fast_as_they_can() -> None:
    found = values(sustained_rows(phase_s=0.5))
    assert found["sustained_hz_1024x768_rgb_warp_jpeg"] > 1.0
    assert 0.0 < found["sustained_cpu_share_1024x768_rgb_warp_jpeg"] <= 1.0


@pytest.mark.long
def test_shared_memory_is_compared_with_tcp() -> None:
    found = values(shm_rows(phase_s=1.5, repetitions=1))
    assert found["shm_age_ratio"] == pytest.approx(
        found["shm_age_ms_p50_1024x768_rgb_raw"] / found["tcp_age_ms_p50_1024x768_rgb_raw"]
    )


@pytest.mark.long
def test_a_thin_link_delays_a_plain_publisher_and_not_the_stream() -> None:
    found = values(overload_rows(duration_s=3.0))
    assert found["overload_age_ms_p50"] <= found["overload_age_ms_p95"]
    assert found["overload_age_ms_p95_plain_pub"] > 1.5 * found["overload_age_ms_p50"]
