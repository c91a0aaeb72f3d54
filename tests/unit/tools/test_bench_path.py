"""`vil-bridge bench path`: no row about images looks better because something failed."""

from __future__ import annotations

import pytest

from vil_benchmarks.path import ImagePhase, image_rows

THREADS_NS = {"main": 300_000_000, "link-unity-7": 60_000_000, "ZMQbg/IO/0-9": 120_000_000}
OURS = ImagePhase(THREADS_NS, [3_000_000] * 100, 100)
BARE = ImagePhase({"main": 20_000_000, "ZMQbg/IO/0-3": 80_000_000}, [2_000_000] * 100, 100)


def values(ours: ImagePhase, bare: ImagePhase = BARE) -> dict[str, float | None]:
    return {row.name: row.value for row in image_rows([ours] * 3, [bare] * 3)}


def test_the_relay_is_compared_with_a_bare_one() -> None:
    found = values(OURS)
    assert found["image_added_ratio_1024x768_rgb"] == 1.5
    assert found["image_cpu_ratio_1024x768_rgb"] == pytest.approx(1.8), (
        "the link's thread and ZeroMQ's"
    )
    assert found["relay_own_share_1024x768_rgb"] == pytest.approx(0.4), (
        "beyond the bare relay's thread, over all that it spends"
    )
    assert found["image_loop_and_http_cpu_ms_per_frame"] == 3.0


def test_pictures_that_did_not_arrive_leave_no_figure() -> None:
    for ours, bare, shares in (
        (OURS._replace(ages_ns=[1_000_000] * 90), BARE, (0.9, 1.0)),
        (OURS, BARE._replace(ages_ns=[]), (1.0, 0.0)),
        (OURS._replace(ages_ns=[], sent=0), BARE, (0.0, 1.0)),
    ):
        found = values(ours, bare)
        assert (
            found.pop("image_least_arrived"),
            found.pop("image_least_arrived_bare_relay"),
        ) == shares
        assert set(found.values()) == {None}


def test_cpu_time_counts_per_picture_that_arrived() -> None:
    lost = values(OURS._replace(ages_ns=[3_000_000] * 96))
    whole = values(OURS)
    for row in ("image_cpu_ratio_1024x768_rgb", "relay_own_share_1024x768_rgb"):
        assert (lost[row] or 0.0) > (whole[row] or 0.0)


def test_a_thread_that_is_not_found_is_not_free() -> None:
    unnamed = values(OURS._replace(cpu_ns={"main": 1, "python-7": 60_000_000, "ZMQbg/IO/0-9": 1}))
    assert unnamed["image_cpu_ratio_1024x768_rgb"] is None
    assert unnamed["relay_own_share_1024x768_rgb"] is None
