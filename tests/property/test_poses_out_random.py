"""Random poses through the served layouts, and random requests to the servers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vil_bridge.core.errors import ProtocolError
from vil_bridge.outputs.natnet.frames import NatNetFrames
from vil_bridge.outputs.pose_server import PoseFrame
from vil_bridge.protocols.natnet.clients import ClientTable
from vil_bridge.protocols.natnet.codec import (
    MAX_PAYLOAD_BYTES,
    MessageId,
    ServerInfo,
    encode,
    encode_text,
)
from vil_bridge.protocols.natnet.frame import TRACKED
from vil_bridge.protocols.natnet.frame_codec import decode_frame, encode_frame
from vil_bridge.protocols.natnet.model_codec import decode_models, encode_models
from vil_bridge.protocols.natnet.responder import NatNetResponder, ResponderHooks

V31, V41 = (3, 1, 0, 0), (4, 1, 0, 0)
PEER = "127.0.0.1", 50_000
single = st.floats(-1e4, 1e4, width=32)
body = st.tuples(
    st.tuples(single, single, single), st.tuples(single, single, single, single), st.booleans()
)


@pytest.mark.parametrize("version", [V31, V41])
@given(bodies=st.lists(body, min_size=1, max_size=8))
def test_what_is_served_decodes_to_the_same_values(
    version: tuple[int, int, int, int],
    bodies: list[tuple[tuple[float, float, float], tuple[float, float, float, float], bool]],
) -> None:
    names = [f"cf{i}" for i in range(len(bodies))]
    frames = NatNetFrames(names, range(1, len(bodies) + 1), [False] * len(bodies), "z")
    p_m, q_xyzw = np.array([p for p, _, _ in bodies]), np.array([q for _, q, _ in bodies])
    tracked = np.array([seen for _, _, seen in bodies])
    frame, changed = frames.frame(1, PoseFrame(5, p_m, q_xyzw, tracked, (None,) * len(bodies)))
    decoded = decode_frame(encode_frame(frame, version), version)
    assert not changed
    np.testing.assert_array_equal(decoded.bodies["params"] & TRACKED, tracked)
    np.testing.assert_array_equal(decoded.bodies["p"], np.where(tracked[:, None], p_m, 0.0))
    np.testing.assert_array_equal(decoded.bodies["q"][tracked], q_xyzw[tracked])
    described = decode_models(encode_models(frames.models, version), version)
    assert [(one.name, one.id) for one in described.bodies] == list(
        zip(names, decoded.bodies["id"], strict=True)
    )


def responder() -> tuple[NatNetResponder, ClientTable]:
    clients, frames = ClientTable(V41, 10**10, 2), NatNetFrames(["cf1"], [1], [False], "z")
    info = ServerInfo("VIL Bridge", V41, V41, 10**9, 1511, multicast=False)
    hooks = ResponderHooks(lambda: info, lambda: frames.models, lambda t_ns: t_ns, lambda: 100.0)
    return NatNetResponder(V41, clients, hooks, multicast=False), clients


@given(st.sampled_from([*MessageId]), st.binary(max_size=600), st.booleans())
def test_random_requests_raise_only_protocol_errors(
    kind: MessageId, payload: bytes, whole: bool
) -> None:
    made, clients = responder()
    datagram = encode(kind, payload) if whole else payload
    try:
        reply = made.reply(datagram, PEER, 1)
    except ProtocolError:
        return
    assert reply is None or len(reply) <= MAX_PAYLOAD_BYTES
    assert len(clients.addresses) <= 1


def test_subscriptions_are_bounded() -> None:
    made, clients = responder()
    made.reply(encode(MessageId.CONNECT), PEER, 1)
    for i in range(2000):
        made.reply(encode_text(MessageId.REQUEST, f"SubscribeToData,RigidBody,cf{i}"), PEER, 1)
    subscriptions = clients.subscriptions(PEER)
    assert subscriptions is not None and subscriptions.key is not None
    assert len(subscriptions.key) == 1024
