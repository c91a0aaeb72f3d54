"""Axes, handedness and pivot from the moves of a hand, in every order of axes that a stream may
have.
"""

from __future__ import annotations

import dataclasses
from functools import cache

import numpy as np
import pytest

from tests.support.align import MIRRORS, ROTATIONS, Moves, recorded, streamed
from vil_bridge.core.geometry import (
    Transform,
    q_conj,
    q_exp,
    q_from_euler_zyx,
    q_log,
    q_mul,
    q_rotate,
    yup_to_zup,
    zup_to_yup,
)
from vil_bridge.core.types import FloatArray
from vil_bridge.setup.align.axes import Axes, axis_name, find_axes
from vil_bridge.setup.align.pivot import find_pivot
from vil_bridge.setup.align.proposal import EstimatedMount, mounting_of, propose, transform_keys
from vil_bridge.setup.align.segmentation import (
    CalibrationError,
    MotionSegment,
    PoseTrack,
    find_moves,
    find_rests,
)

T_BODY_MARKERS = Transform.of((0.03, -0.02, 0.05), q_from_euler_zyx(0.5, 0.1, -0.2))


@cache
def track() -> PoseTrack:
    return recorded(Moves(T_BODY_MARKERS))


def apart_rad(a: FloatArray, b: FloatArray) -> float:
    return float(np.linalg.norm(q_log(q_mul(q_conj(a), b))))


def test_rests_and_moves_are_found() -> None:
    assert len(find_rests(track())) == 6
    moves = find_moves(track())
    assert len(moves) == 5
    assert np.linalg.norm(moves[0].displacement_m) == pytest.approx(0.55, abs=0.03)
    assert np.degrees(np.linalg.norm(moves[3].turn_rad)) == pytest.approx(85, abs=3)


@pytest.mark.parametrize("body_axes_too", [True, False])
@pytest.mark.parametrize("index", range(24))
def test_every_order_of_axes_is_found(index: int, body_axes_too: bool) -> None:
    S = ROTATIONS[index]
    seen = streamed(track(), S, body_axes_too=body_axes_too)
    mounting = mounting_of(find_moves(seen))
    np.testing.assert_array_equal(mounting.axes.R_world_streamed, S.T)
    assert mounting.axes.names == tuple(axis_name(column) for column in S.T)
    assert mounting.axes.off_deg < 8.0
    pivot = T_BODY_MARKERS.inverse().p_m
    np.testing.assert_allclose(
        mounting.pivot.p_markers_m, S @ pivot if body_axes_too else pivot, atol=0.005
    )
    assert mounting.pivot.residual_m < 0.005
    # The proposed frames put the body where it was: nose, left and up along the moves.
    proposal = propose(mounting, T_world_room=Transform.identity(), up_axis=None)
    T_world_room = proposal.T_world_room or Transform.identity()
    np.testing.assert_allclose(T_world_room.rotation(), S.T, atol=1e-12)
    first = Transform(seen.p_room_m[15], seen.q_room_markers[15])
    body = T_world_room @ first @ proposal.T_body_markers.inverse()
    assert apart_rad(body.q_xyzw, Moves().T_room_body(0.25).q_xyzw) < np.radians(8)
    np.testing.assert_allclose(body.p_m, Moves().T_room_body(0.25).p_m, atol=0.012)


@pytest.mark.parametrize("index", range(24))
def test_every_mirror_is_named_and_refused(index: int) -> None:
    S = MIRRORS[index]
    moves = find_moves(streamed(track(), S))
    axes = find_axes(*(move.displacement_m for move in moves[:3]))
    assert axes.mirrored
    assert axes.names == tuple(axis_name(column) for column in S.T)
    with pytest.raises(CalibrationError, match="mirrored: left-handed data"):
        mounting_of(moves)


@pytest.mark.parametrize("configured", ["y", "z"])
def test_a_wrong_up_axis_is_answered_with_the_right_one(configured: str) -> None:
    """The adapter turns what it takes for the other axis; after the cure everything fits."""
    turn = yup_to_zup if configured == "y" else zup_to_yup
    p, q = turn(track().p_room_m, track().q_room_markers)
    mounting = mounting_of(find_moves(PoseTrack(track().t_ns, p, q)))
    proposal = propose(
        mounting, T_world_room=Transform.identity(), up_axis="y" if configured == "y" else "z"
    )
    assert proposal.up_axis == ("z" if configured == "y" else "y")
    assert proposal.T_world_room is None
    straight = mounting_of(find_moves(track()))
    wanted = propose(straight, T_world_room=Transform.identity(), up_axis=proposal.up_axis)
    assert wanted.up_axis is None and wanted.T_world_room is None
    assert apart_rad(wanted.T_body_markers.q_xyzw, proposal.T_body_markers.q_xyzw) < 1e-6
    np.testing.assert_allclose(wanted.T_body_markers.p_m, proposal.T_body_markers.p_m, atol=1e-6)


def test_a_room_that_lies_askew_keeps_its_yaw() -> None:
    mounting = mounting_of(find_moves(recorded(Moves(yaw_rad=np.radians(40.0)))))
    proposal = propose(mounting, T_world_room=Transform.of((1.0, 2.0, 0.0)), up_axis="z")
    assert proposal.up_axis is None and proposal.T_world_room is not None
    keys = transform_keys(proposal.T_world_room)
    assert keys["p_m"] == [1.0, 2.0, 0.0]
    np.testing.assert_allclose(keys["ypr_deg"], [-40.0, 0.0, 0.0], atol=8.0)
    fits = propose(mounting, T_world_room=proposal.T_world_room, up_axis="z")
    assert fits.T_world_room is None


def test_the_written_angles_mean_the_same_rotation() -> None:
    rng = np.random.default_rng(1)
    straight_up = [q_from_euler_zyx(0.7, np.pi / 2, 0.0), q_from_euler_zyx(-0.3, -np.pi / 2, 0.4)]
    for q in [*(q_exp(rng.uniform(-3, 3, 3)) for _ in range(50)), *straight_up]:
        yaw, pitch, roll = np.radians(transform_keys(Transform.of((0, 0, 0), q))["ypr_deg"])
        assert apart_rad(q_from_euler_zyx(yaw, pitch, roll), q) < np.radians(0.02)


# --- refusals -------------------------------------------------------------------------------------


def moves_with(**changes: object) -> list[MotionSegment]:
    return find_moves(recorded(dataclasses.replace(Moves(T_BODY_MARKERS), **changes)))  # type: ignore[arg-type]


def test_small_moves_are_refused() -> None:
    with pytest.raises(
        CalibrationError, match=r"the move forward was \d+ cm; at least 25 cm are needed"
    ):
        mounting_of(moves_with(scale=0.3))


def test_a_missing_move_is_refused() -> None:
    with pytest.raises(
        CalibrationError,
        match=r"4 moves between rests were seen, 5 are wanted \(forward, left, up, turn, tilt\)",
    ):
        mounting_of(find_moves(track())[:4])


def test_moves_that_contradict_each_other_are_refused() -> None:
    x, y, z = np.eye(3) * 0.5
    with pytest.raises(
        CalibrationError, match="forward and left are 27 degrees apart instead of 90"
    ):
        find_axes(x, x + 0.5 * y, z)
    with pytest.raises(CalibrationError, match="the move up lies 45 degrees from the nearest axis"):
        find_axes(x, y, y + z)
    with pytest.raises(CalibrationError, match="the move left goes 90 degrees up or down"):
        find_axes(x, z, z)


def test_tilting_about_one_axis_is_refused() -> None:
    with pytest.raises(CalibrationError, match="turned the body about one axis only"):
        mounting_of(moves_with(tilt_axes=1))


def test_a_pivot_that_never_stayed_is_refused() -> None:
    tilt = find_moves(track())[4].path
    wandering = tilt.p_room_m + 0.2 * np.sin(np.linspace(0.0, 20.0, len(tilt)))[:, None]
    with pytest.raises(CalibrationError, match="no point of the body stayed in place"):
        find_pivot(PoseTrack(tilt.t_ns, wandering, tilt.q_room_markers))


def test_attitudes_in_other_axes_than_the_positions_are_named() -> None:
    p, _ = yup_to_zup(track().p_room_m, track().q_room_markers)
    only_positions = PoseTrack(track().t_ns, p, track().q_room_markers)
    with pytest.raises(
        CalibrationError,
        match=r"positions have -y up, but a turn to the left arrives as one about \+z",
    ):
        mounting_of(find_moves(only_positions))
    inverted = PoseTrack(track().t_ns, track().p_room_m, q_conj(track().q_room_markers))
    with pytest.raises(CalibrationError, match="the attitudes are inverted"):
        mounting_of(find_moves(inverted))


def test_a_slip_of_the_hand_spoils_no_pivot() -> None:
    tilt = find_moves(track())[4].path
    slipped = tilt.p_room_m.copy()
    slipped[20:30] += [0.08, 0.0, 0.05]
    found = find_pivot(PoseTrack(tilt.t_ns, slipped, tilt.q_room_markers))
    np.testing.assert_allclose(found.p_markers_m, T_BODY_MARKERS.inverse().p_m, atol=0.005)


def test_types_are_values() -> None:
    mounting = mounting_of(find_moves(track()))
    assert isinstance(mounting, EstimatedMount) and isinstance(mounting.axes, Axes)
    p_body_m = mounting.T_body_markers.p_m + q_rotate(
        mounting.T_body_markers.q_xyzw, mounting.pivot.p_markers_m
    )
    np.testing.assert_allclose(p_body_m, 0.0, atol=1e-12)
