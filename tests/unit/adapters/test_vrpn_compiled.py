"""VRPN conversations through the compiled table of trackers against its twin.

The same events, counters and errors.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.kernel_against_twin import compare_conversation, compare_vrpn
from tests.fuzz.twins import Agreement
from tests.fuzz.vrpn_streams import Conversation, conversations
from vil_adapters.vrpn.compiled_table import CompiledTrackerTable
from vil_adapters.vrpn.convert import VrpnFrame
from vil_adapters.vrpn.tracker_table import MAX_SUBJECTS, PoseVerdict
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S
from vil_bridge.kernel import library
from vil_bridge.protocols.vrpn import codec
from vil_bridge.protocols.vrpn.codec import POSE, TrackerPose, VrpnMessage
from vil_bridge.protocols.vrpn.id_mapping import Outgoing

pytestmark = pytest.mark.skipif(
    library.KERNEL is None, reason=f"no compiled kernel: {library.ABSENT}"
)

T_NS = 1_700_000_000 * NS_PER_S
UPRIGHT = (0.0, 0.0, 0.0, 1.0)


def agree(*pieces: bytes, **options: Any) -> Agreement:
    on = Agreement()
    timed = [(piece, NS_PER_S + number * 5 * NS_PER_MS) for number, piece in enumerate(pieces)]
    compare_conversation(Conversation(options, timed), on)
    return on


def test_generated_conversations() -> None:
    assert compare_vrpn(3000, seed=3).compiled >= 3000


@given(
    st.integers(0, 50),
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=12),
    st.data(),
)
def test_damaged_streams_in_any_pieces(
    which: int, damage: list[tuple[int, int]], data: st.DataObject
) -> None:
    (conversation,) = itertools.islice(conversations(which), 1)
    stream = bytearray(b"".join(piece for piece, _ in conversation.pieces))
    for place, value in damage:
        stream[codec.COOKIE_BYTES + place % (len(stream) - codec.COOKIE_BYTES)] = value
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    edges = [0, *cuts, len(stream)]
    agree(*(bytes(stream[a:b]) for a, b in itertools.pairwise(edges)), **conversation.options)


@given(
    st.lists(st.floats(), min_size=7, max_size=7),
    st.sampled_from(("m", "mm")),
    st.sampled_from("yz"),
)
def test_any_pose(numbers: list[float], units: str, up_axis: str) -> None:
    out = Outgoing()
    head = codec.COOKIE + out.describe(("a",), (POSE,))
    x, y, z, qx, qy, qz, qw = numbers
    poses = [TrackerPose(0, (1.0, 2.0, 3.0), UPRIGHT), TrackerPose(0, (x, y, z), (qx, qy, qz, qw))]
    sent = [codec.encode_pose(pose) for pose in (*poses, poses[1], poses[0])]
    pieces = [
        out.message("a", POSE, T_NS + i * 5 * NS_PER_MS, payload) for i, payload in enumerate(sent)
    ]
    assert agree(head, *pieces, units=units, up_axis=up_axis).compiled == len(sent)


def test_names_that_move_to_other_ids() -> None:
    """Descriptions within the stream bind the ids again."""

    def pose(sender: int, t_ms: int) -> bytes:
        payload = codec.encode_pose(TrackerPose(0, (float(t_ms), 0.0, 0.0), UPRIGHT))
        return codec.encode_message(VrpnMessage(0, sender, T_NS + t_ms * NS_PER_MS, payload))

    def described(sender: int, name: str) -> bytes:
        return codec.encode_message(
            VrpnMessage(codec.SENDER_DESCRIPTION, sender, 0, codec.encode_name(name))
        )

    kind = codec.encode_message(VrpnMessage(codec.TYPE_DESCRIPTION, 0, 0, codec.encode_name(POSE)))
    head = codec.COOKIE + kind + described(0, "a") + described(1, "b")
    agree(
        head + pose(0, 5) + pose(1, 5),
        pose(0, 10) + pose(1, 10) + described(0, "b") + described(1, "a") + pose(0, 15),
    )


def test_more_poses_in_one_piece_than_there_is_room_for() -> None:
    out = Outgoing()
    head = codec.COOKIE + out.describe(("a",), (POSE,))
    payload = codec.encode_pose(TrackerPose(0, (1.0, 2.0, 3.0), UPRIGHT))
    count = MAX_SUBJECTS + 100
    agree(
        head,
        b"".join(out.message("a", POSE, T_NS + i * NS_PER_MS // 10, payload) for i in range(count)),
    )


def test_the_most_bodies() -> None:
    table = CompiledTrackerTable("lab", VrpnFrame("m", "z"))
    pose = TrackerPose(0, (1.0, 2.0, 3.0), UPRIGHT)
    verdicts = [table.judge(str(i), pose, T_NS, NS_PER_S) for i in range(MAX_SUBJECTS + 1)]
    assert verdicts == [PoseVerdict.ACCEPTED] * MAX_SUBJECTS + [PoseVerdict.TOO_MANY]
    (frame,) = table.frames()
    assert len(frame.subjects) == MAX_SUBJECTS
    assert frame.tracked.all()
