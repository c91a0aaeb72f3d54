"""`vil-bridge bench stream` on a small scale: every row is there and says what its name says."""

from __future__ import annotations

import threading

import pytest

from tests.support.bridge_rig import build, running
from tests.support.common import PATIENCE_S
from tests.support.events import until
from vil_benchmarks import stream_peers
from vil_benchmarks.report import Row
from vil_benchmarks.stream import (
    _configured,
    overload_rows,
    shm_rows,
    sustained_rows,
    warp_rows,
)
from vil_bridge.core.frame_header import FrameHeader
from vil_bridge.core.types import ImageArray
from vil_bridge.interfaces.ports import FrameSink

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


class Hesitant(FrameSink):
    """Takes its time with each picture."""

    def __init__(self) -> None:
        self.may_end, self.begun = threading.Event(), threading.Event()

    def wanted(self, modality: str, variant: str) -> bool:
        return (modality, variant) == ("rgb", "compensated")

    def offer(self, header: FrameHeader, pixels: ImageArray) -> None:
        self.begun.set()
        assert self.may_end.wait(PATIENCE_S)


async def test_a_frame_waits_while_the_relay_works_on_the_one_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream_peers, "_TAKEN_WITHIN_S", 10 * PATIENCE_S)
    with _configured((64, 48), 30.0, "drone") as (path, _):
        bridge = build(path.read_text())
    (camera,) = bridge.context.cameras.values()
    sink = Hesitant()
    camera.sinks.add(sink)
    async with running(bridge):
        try:
            with stream_peers._fed(0.0, bridge):
                await until(lambda: sink.begun.is_set() and camera.relay.due_ns is not None)
                assert camera.meter.count == 0, "the first is not finished"
        finally:
            sink.may_end.set()


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
