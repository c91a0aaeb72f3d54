"""`vil-bridge bench poses`: a frame that a client did not read makes no row look better."""

from __future__ import annotations

import pytest

from vil_benchmarks.poses import CLIENTS, PosePhase, pose_rows
from vil_benchmarks.poses_peers import BODIES, NumberedBodies, frame_number

SOURCE, POLLING = CLIENTS[0], CLIENTS[-1]
FILMED = range(1, 1001)
DIRECT = {number: 4_000_000 * number for number in FILMED}
SERVED = {number: t_ns + 400_000 for number, t_ns in DIRECT.items()}


def values(served: dict[int, int], direct: dict[int, int] = DIRECT) -> dict[str, float | None]:
    rows = pose_rows(SOURCE, PosePhase(FILMED, direct, served, 0.5))
    return {row.name.removesuffix("/natnet/source"): row.value for row in rows}


def without(read: dict[int, int], count: int) -> dict[int, int]:
    return {number: t_ns for number, t_ns in read.items() if number > count}


def test_each_frame_is_compared_with_the_twins() -> None:
    assert values(SERVED) == {
        "added_ms_p50": pytest.approx(0.4),
        "added_ms_p99": pytest.approx(0.4),
        "loop_lag_ms_p99": 0.5,
        "read_share": 1.0,
        "read_share_direct": 1.0,
    }


def test_frames_that_were_not_read_are_late_for_ever() -> None:
    few = values(without(SERVED, 15))
    assert few["added_ms_p50"] == pytest.approx(0.4)
    assert (few["added_ms_p99"], few["read_share"]) == (None, 0.985)


@pytest.mark.parametrize(
    ("served", "direct"), [(without(SERVED, 60), DIRECT), (SERVED, without(DIRECT, 60)), ({}, {})]
)
def test_a_client_that_misses_frames_has_no_figure_of_time(
    served: dict[int, int], direct: dict[int, int]
) -> None:
    found = values(served, direct)
    assert (found["added_ms_p50"], found["added_ms_p99"]) == (None, None)
    assert min(found["read_share"] or 0.0, found["read_share_direct"] or 0.0) < 0.95


def test_absent_programs_have_rows_without_values_and_polling_ones_none_of_time() -> None:
    absent = pose_rows(SOURCE, None)
    assert [row.name for row in absent] == [
        row.name for row in pose_rows(SOURCE, PosePhase(FILMED, {}, {}, None))
    ]
    assert all(row.value is None and row.samples == 0 for row in absent)
    names = [row.name for row in pose_rows(POLLING, PosePhase(FILMED, DIRECT, SERVED, 0.5))]
    assert names == ["read_share/vrpn/motioncapture", "read_share_direct/vrpn/motioncapture"]


def test_a_frame_counts_when_all_bodies_show_its_number() -> None:
    x_m = NumberedBodies().frame(3600).p_m[:, 0].tolist()
    assert frame_number(x_m) == 3600
    assert frame_number(x_m[1:]) is None, "one is missing"
    assert frame_number([*x_m[1:], 3.599]) is None, "one is of the frame before"
    assert frame_number([*x_m[1:], 3.6004]) is None, "one is predicted"
    assert frame_number([3.6004] * BODIES) is None
