"""Random messages of a vehicle: a pose, no pose, or a ProtocolError; and poses survive the wire."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from vil_adapters.mavlink_vehicle.convert import (
    VehiclePose,
    from_local_position,
    from_odometry,
    to_local_position,
    to_odometry,
)
from vil_bridge.core.errors import ProtocolError
from vil_bridge.core.geometry import q_normalize
from vil_bridge.protocols.mavlink import framing
from vil_bridge.protocols.mavlink import messages as mavlink
from vil_bridge.protocols.mavlink import messages as mavlink_messages
from vil_bridge.protocols.mavlink.messages import KINDS

coordinates = st.lists(st.floats(-5.0, 5.0), min_size=3, max_size=3)
quaternions = st.lists(st.floats(-1.0, 1.0), min_size=4, max_size=4).filter(
    lambda q: float(np.linalg.norm(q)) > 0.1
)


def check(pose: VehiclePose | None) -> None:
    if pose is not None:
        assert np.isfinite(pose.p_m).all()
        assert abs(np.linalg.norm(pose.q_xyzw) - 1.0) < 1e-9


@given(st.binary(min_size=233, max_size=233))
def test_any_odometry_is_a_pose_or_refused(payload: bytes) -> None:
    message = KINDS[mavlink.Odometry].unpack(payload)
    assert isinstance(message, mavlink.Odometry)
    try:
        check(from_odometry(message))
    except ProtocolError as exc:
        assert str(exc)


@given(st.binary(min_size=28, max_size=28), st.binary(min_size=48, max_size=48), st.booleans())
def test_any_local_position_is_a_pose_or_refused(
    position: bytes, attitude: bytes, together: bool
) -> None:
    told = KINDS[mavlink.LocalPositionNed].unpack(position)
    turned = KINDS[mavlink.AttitudeQuaternion].unpack(
        (position[:4] if together else attitude[:4]) + attitude[4:]
    )
    assert isinstance(told, mavlink.LocalPositionNed)
    assert isinstance(turned, mavlink.AttitudeQuaternion)
    try:
        check(from_local_position(told, turned))
    except ProtocolError as exc:
        assert str(exc)


@given(
    st.sampled_from([1, 4, 20, 21]),
    st.integers(0, 10**9),
    coordinates,
    quaternions,
    st.integers(0, 255),
)
def test_poses_survive_the_wire(
    frame: int, t_ms: int, p: list[float], q: list[float], counter: int
) -> None:
    pose = VehiclePose(t_ms * 1_000_000, np.array(p), q_normalize(np.array(q)))
    sent: list[mavlink_messages.Body] = [
        to_odometry(pose, frame, counter, tracked=True),
        *to_local_position(pose),
    ]
    stream = b"".join(framing.encode(body, i, system=1, component=1) for i, body in enumerate(sent))
    odometry, attitude, position = (
        message.body for message in framing.MavlinkParser().feed(stream)
    )
    assert isinstance(odometry, mavlink.Odometry)
    assert isinstance(attitude, mavlink.AttitudeQuaternion)
    assert isinstance(position, mavlink.LocalPositionNed)
    assert odometry.reset_counter == counter
    for got in (from_odometry(odometry), from_local_position(position, attitude)):
        assert got is not None
        assert got.t_ns == pose.t_ns
        np.testing.assert_allclose(got.p_m, pose.p_m, atol=1e-6)
        assert abs(got.q_xyzw @ pose.q_xyzw) > 1.0 - 1e-12
