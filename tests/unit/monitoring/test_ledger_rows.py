"""The frame ledger: what a row tells, who completes it, how many are kept, and how they travel."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.ledger import flown_ledger, offered_header
from vil_bridge.core.errors import ProtocolError
from vil_bridge.core.frame_header import FrameStamps
from vil_bridge.core.types import Stamps
from vil_bridge.monitoring.frame_records import PARTS, STAGES, ledger_lines, read_ledger, stage_ns
from vil_bridge.pipeline.frame_ledger import RETAINED_FRAMES, FrameLedger


def test_a_frame_from_capture_to_reception() -> None:
    ledger = FrameLedger()
    ledger.record_offer(offered_header(1, capture=2, arrival=4, request=7, image=20, warp=21))
    ledger.record_output(1, Stamps(2, 4, 7, 20, 21, output=23))
    ledger.record_send(1, FrameStamps(encode=25, send=26))
    ledger.record_send(1, FrameStamps(encode=90, send=91))  # a second reader
    assert ledger.record_reception(1, 40) is not None
    assert ledger.record_reception(1, 95) is None
    (row,) = ledger.rows()
    parts = [stage_ns(row, part) for part in PARTS]
    assert parts == [2, 3, 13, 1, 4, 1, 14]
    assert stage_ns(row, "capture_to_received") == 38
    assert (stage_ns(row, "warp_to_output"), stage_ns(row, "capture_to_output")) == (2, 21)
    assert all(histogram.view(0).since_start.count == 1 for histogram in ledger.stages.values())


def test_latencies_are_accounted_in_batches_and_when_read() -> None:
    ledger = FrameLedger()
    counts = []
    for frame_id in range(1, 101):
        ledger.record_output(frame_id, Stamps(2, 4, 7, 20, 21, output=23))
        ledger.settle()
        if frame_id in (1, 40):
            counts.append(ledger.stages["warp_to_output"].view(0).since_start.count)
    assert counts == [1, 40]
    assert len(ledger._unaccounted) < 32, "they do not pile up"
    assert ledger.stages["warp_to_output"].view(0).since_start.count == 100


def test_the_parts_of_the_way_add_up_to_the_totals_exactly() -> None:
    ends = list(PARTS.values())
    assert [begin for begin, _ in ends[1:]] == [end for _, end in ends[:-1]]
    whole = 0
    for row in flown_ledger().rows:
        parts = [stage_ns(row, part) for part in PARTS]
        total = stage_ns(row, "capture_to_received")
        if total is not None:
            assert sum(p for p in parts if p is not None) == total
            from_request = sum(p for p in parts[2:] if p is not None)
            assert from_request == stage_ns(row, "request_to_received")
            whole += 1
    assert whole == 540


def test_a_frame_without_a_reader_has_all_stages_up_to_the_outputs() -> None:
    ledger = FrameLedger()
    ledger.record_output(1, Stamps(2, 4, 7, 20, 21, output=23))
    counts = {name: histogram.view(0).since_start for name, histogram in ledger.stages.items()}
    counted = [name for name, view in counts.items() if view.count]
    assert counted == [*list(PARTS)[:4], "warp_to_output", "capture_to_output"]
    parts_ms = [counts[name].max_ms or 0.0 for name in counted[:-1]]
    assert sum(parts_ms) == pytest.approx(counts["capture_to_output"].max_ms)
    assert ledger.rows() == []


def test_the_compensated_picture_describes_the_frame() -> None:
    ledger = FrameLedger()
    ledger.record_offer(offered_header(1, "raw"))
    ledger.record_send(1, FrameStamps(encode=20, send=21))
    ledger.record_offer(offered_header(1, "compensated"))
    ledger.record_offer(offered_header(2, "compensated"))
    ledger.record_offer(offered_header(2, "raw"))
    first, second = ledger.rows()
    assert (first.variant, first.compensation["angle_rad"], first.stamps.send) == (
        "compensated",
        0.01,
        21,
    )
    assert second.variant == "compensated"


def test_what_nobody_offered_or_sent_opens_no_row() -> None:
    ledger = FrameLedger()
    ledger.record_send(5, FrameStamps(encode=1, send=2))
    ledger.record_offer(offered_header(6))
    assert ledger.record_reception(5, 3) is None
    assert ledger.record_reception(6, 3) is None
    assert [row.frame_id for row in ledger.rows()] == [6]


def test_the_newest_frames_are_kept() -> None:
    ledger = FrameLedger()
    for frame_id in range(1, RETAINED_FRAMES + 6):
        ledger.record_offer(offered_header(frame_id))
    rows = ledger.rows(RETAINED_FRAMES + 5)
    assert [rows[0].frame_id, len(rows)] == [6, RETAINED_FRAMES]
    assert [row.frame_id for row in ledger.rows(2)] == [RETAINED_FRAMES + 4, RETAINED_FRAMES + 5]


def test_lines_come_back_as_they_were() -> None:
    ledger = flown_ledger(20)
    lines = ledger_lines(ledger)
    assert lines.count(b"\n") == 21
    (front, again) = read_ledger((lines + lines).splitlines())
    assert front == again == ledger
    totals = {"request_to_received", "capture_to_received", "warp_to_output", "capture_to_output"}
    assert set(STAGES) - set(PARTS) == totals


def test_what_is_no_ledger_is_refused_with_its_line() -> None:
    head, frame, *_ = ledger_lines(flown_ledger(2)).splitlines()
    with pytest.raises(ProtocolError, match=r"line 1: a frame before"):
        read_ledger([frame])
    with pytest.raises(ProtocolError, match=r"line 2 is not a line of a ledger"):
        read_ledger([head, b"{}"])
    with pytest.raises(ProtocolError, match=r"line 2 of the ledger is too long"):
        read_ledger([head, b" " * 70_000])


@given(st.lists(st.binary(max_size=80), max_size=4))
def test_any_bytes_as_a_ledger(lines: list[bytes]) -> None:
    with contextlib.suppress(ProtocolError):
        read_ledger(lines)
