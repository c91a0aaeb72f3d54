"""Random and truncated bytes through the VRPN codec: only ProtocolError comes out."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vil_bridge.core.errors import ProtocolError
from vil_bridge.protocols.vrpn import codec
from vil_bridge.protocols.vrpn.codec import COOKIE, POSE, TrackerPose, Velocity, VrpnMessage
from vil_bridge.protocols.vrpn.id_mapping import Incoming, Outgoing

finite = st.floats(allow_nan=False, allow_infinity=False)
three = st.tuples(finite, finite, finite)
four = st.tuples(finite, finite, finite, finite)
sensors = st.integers(0, 65535)
DECODERS = [
    codec.decode_cookie,
    codec.decode_message,
    codec.decode_name,
    codec.decode_pose,
    codec.decode_velocity,
    codec.decode_connect_request,
    codec.message_bytes,
]


@given(
    st.integers(-5, 2**31 - 1),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(0, 2**32 * 10**6 - 1),
    st.binary(),
)
def test_messages_survive_the_wire(kind: int, sender: int, t_us: int, payload: bytes) -> None:
    message = VrpnMessage(kind, sender, t_us * 1000, payload, 2**32 - 1)
    data = codec.encode_message(message)
    assert len(data) % 8 == 0
    assert codec.message_bytes(data) == len(data)
    assert codec.decode_message(data) == message


@given(sensors, three, four, finite)
def test_poses_and_velocities_survive_the_wire(
    sensor: int, p: tuple[float, float, float], q: tuple[float, float, float, float], dt_s: float
) -> None:
    pose, velocity = TrackerPose(sensor, p, q), Velocity(sensor, p, q, dt_s)
    assert codec.decode_pose(codec.encode_pose(pose)) == pose
    assert codec.decode_velocity(codec.encode_velocity(velocity)) == velocity
    broken = codec.encode_velocity(Velocity(sensor, p, q, math.nan))
    with pytest.raises(ProtocolError):
        codec.decode_velocity(broken)


@pytest.mark.parametrize("decode", DECODERS, ids=lambda decode: decode.__name__)
@given(data=st.binary(max_size=200))
def test_random_bytes_raise_only_protocol_errors(decode: object, data: bytes) -> None:
    assert callable(decode)
    try:
        decode(data)
    except ProtocolError as exc:
        assert str(exc)


def test_every_truncation_is_refused() -> None:
    pose = codec.encode_pose(TrackerPose(1, (1.0, 2.0, 3.0), (0.0, 0.0, 0.0, 1.0)))
    message = codec.encode_message(VrpnMessage(0, 1, 5_000, pose))
    velocity = codec.encode_velocity(Velocity(1, (1.0, 2.0, 3.0), (0.0, 0.0, 0.0, 1.0), 0.1))
    for whole, decode in (
        (COOKIE, codec.decode_cookie),
        (message, codec.decode_message),
        (pose, codec.decode_pose),
        (velocity, codec.decode_velocity),
        (codec.encode_name("drone"), codec.decode_name),
    ):
        for end in range(len(whole)):
            with pytest.raises(ProtocolError):
                decode(whole[:end])


@given(st.lists(st.binary(max_size=300), max_size=5), st.booleans())
def test_random_streams_raise_only_protocol_errors(chunks: list[bytes], greeted: bool) -> None:
    incoming = Incoming()
    outgoing = Outgoing()
    if greeted:
        list(
            incoming.feed(
                COOKIE + outgoing.describe(("a",), (POSE,)) + outgoing.message("a", POSE, 0)
            )
        )
    try:
        for chunk in chunks:
            list(incoming.feed(chunk))
    except ProtocolError as exc:
        assert str(exc)
    assert len(incoming._pending) < codec.MAX_MESSAGE_BYTES + 8
