"""What a bridge publishes of its world: measured poses, honest states, own actors only."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests.support.common import ROOT
from tests.support.federation import RoomMotion
from vil_bridge.config.load import load
from vil_bridge.core.bridge_time import BridgeTime
from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.geometry import Transform, q_from_euler_zyx
from vil_bridge.core.types import ActorKind, SourceFrame, SourceReset
from vil_bridge.daemon.factories import make_publisher
from vil_bridge.outputs.federation.publisher import PublishedActor, Publisher
from vil_bridge.protocols.federation.messages import (
    ActorInfo,
    FrameMessage,
    decode_description,
    decode_frame,
    encode_describe,
)
from vil_bridge.registry import resolve
from vil_bridge.runtime.peer_faults import PeerFaults
from vil_bridge.world.actors import Actor
from vil_bridge.world.world import World

T_WORLD_ROOM = Transform.of((4.0, 1.0, 0.0), q_from_euler_zyx(2.0, 0.0, 0.0))


class Wire:
    """A link that keeps what it is given."""

    def __init__(self) -> None:
        self.endpoint = "memory"
        self.counters: Counter[str] = Counter()
        self.peer_faults = PeerFaults("publish")
        self.subscribers = 1
        self.frames: list[FrameMessage] = []

    def open(self) -> None:
        pass

    def publish(self, frame: bytes) -> None:
        self.frames.append(decode_frame(frame))

    def housekeep(self) -> None:
        pass

    def close(self) -> None:
        pass


class Room:
    """A world with a drone and a human of one source, and what it publishes."""

    def __init__(self) -> None:
        actors = (
            Actor("drone", ActorKind.VEHICLE, "mocap", "drone"),
            Actor("eva", ActorKind.HUMAN, "mocap", "Actor"),
        )
        self.world = World({"mocap": T_WORLD_ROOM}, actors)
        self.wire = Wire()
        published = [PublishedActor(ActorInfo(a.name, a.kind), a.source) for a in actors]
        self.publisher = Publisher("here", published, self.world)
        self.publisher.links.append(self.wire)
        self.motion = RoomMotion()

    def film(self, t_s: float, *, drone: bool = True) -> FrameMessage:
        """A frame arrives now; returns what was published of it."""
        seen = self.motion.at(round(t_s * NS_PER_S))
        t_ns = now_ns()
        tracked = np.array([drone])
        self.world.ingest(
            SourceFrame(
                "mocap",
                1,
                None,
                t_ns,
                seen.subjects,
                seen.p_m,
                seen.q_xyzw,
                tracked,
                seen.skeletons,
            )
        )
        self.publisher.on_frame("mocap")
        return self.wire.frames[-1]


def test_measured_poses_in_the_world_at_their_capture_time() -> None:
    room = Room()
    frame = room.film(3.0)
    seen = room.motion.at(3 * NS_PER_S)
    np.testing.assert_allclose(frame.actors["p_m"][0], T_WORLD_ROOM.apply(seen.p_m[0]), atol=1e-12)
    human = seen.skeletons[0].moved(T_WORLD_ROOM)
    np.testing.assert_allclose(frame.bones["p_m"], human.p_m, atol=1e-9)
    np.testing.assert_allclose(frame.actors["p_m"][1], human.p_m[0], atol=1e-9)
    assert [str(state) for state in frame.states()] == ["tracked", "tracked"]
    assert frame.t_capture_ns <= frame.t_sent_ns <= now_ns()


def test_what_was_not_seen_in_the_frame_is_not_tracked() -> None:
    room = Room()
    room.film(3.0)
    frame = room.film(3.01, drone=False)
    assert [str(state) for state in frame.states()] == ["coasting", "tracked"]


def test_nothing_is_tracked_after_a_reset_and_the_time_is_that_of_sending() -> None:
    room = Room()
    room.film(3.0)
    room.world.ingest(SourceReset("mocap", "test"))
    room.publisher.on_frame("mocap")
    frame = room.wire.frames[-1]
    assert [str(state) for state in frame.states()] == ["lost", "lost"]
    assert frame.t_capture_ns == frame.t_sent_ns


def test_the_description_follows_the_skeletons() -> None:
    room = Room()
    first = room.film(3.0)
    answer = room.publisher.answer(encode_describe())
    assert answer is not None
    run, told = decode_description(answer)
    assert (run, told.revision) == (first.run, first.revision)
    assert [a.name for a in told.actors] == ["drone", "eva"]
    assert told.actors[1].skeleton is not None
    assert len(told.actors[1].skeleton.bones) == len(first.bones)
    room.motion = RoomMotion()  # the same skeleton told anew is no news
    assert room.film(3.01).revision == first.revision
    assert [frame.sequence for frame in room.wire.frames] == [1, 2]


def test_nobody_listens_and_nothing_is_made() -> None:
    room = Room()
    room.wire.subscribers = 0
    with pytest.raises(IndexError):
        room.film(3.0)
    room.publisher.on_frame("another source")
    assert room.publisher.report()["subscribers"] == 0


# --- configuration --------------------------------------------------------------------------------

BASE = """\
version: 1
rooms: {here: {}, there: {}}
sources:
  motive: {type: optitrack, room: here}
  far: {type: federation, room: there, site: far, address: "tcp://127.0.0.1:5570"}
actors:
  drone: {kind: vehicle, source: motive, subject: drone}
  eva: {kind: human, source: far, subject: eva}
federation: PUBLISH
"""


def problems(folder: Path, publish: str, base: str = BASE) -> str:
    path = folder / "test.yaml"
    path.write_text(base.replace("PUBLISH", publish))
    try:
        load(path, env={}, resolve=resolve)
    except ConfigError as exc:
        return str(exc)
    return ""


@pytest.mark.parametrize(
    ("publish", "said"),
    [
        ("{site: here, zmq: {}}", ""),
        ("{site: here, actors: [drone], zmq: {}}", ""),
        (
            "{site: here, actors: [eva], zmq: {}}",
            "'eva' comes from another bridge; only own actors",
        ),
        ("{site: here, actors: [dron], zmq: {}}", "no actor is named 'dron'"),
        (
            "{zmq: {bind: 'tcp://0.0.0.0:5570'}}",
            "can be reached from the network and nothing guards it",
        ),
        ("{zmq: {bind: 'tcp://0.0.0.0:5570', insecure: true}}", ""),
        ("{zmq: {bind: 'tcp://0.0.0.0:5570', secret_key: a, allowed_keys: b}}", ""),
        ("{zmq: {secret_key: a}}", "secret_key and allowed_keys go together"),
        ("{zmq: {bind: 'udp://1.2.3.4:1'}}", "must be written tcp://ADDRESS:PORT"),
        ("{zenoh: {}}", ""),
        ("{zenoh: {listen: 'tls/0.0.0.0:7447', users: a}}", "needs certificate and private_key"),
        (
            "{zenoh: {listen: 'tls/0.0.0.0:7447', certificate: a, private_key: b}}",
            "can be reached from the network",
        ),
        ("{zenoh: {listen: 'tls/0.0.0.0:7447', certificate: a, private_key: b, users: c}}", ""),
        ("{zenoh: {listen: 'tcp/0.0.0.0:7447', users: a}}", "can be reached from the network"),
    ],
)
def test_what_may_be_published_where(tmp_path: Path, publish: str, said: str) -> None:
    found = problems(tmp_path, publish)
    assert (said in found) if said else (found == "")


@pytest.mark.parametrize(
    ("wanted", "published"), [("", ["drone", "gate"]), ("actors: [gate], ", ["gate"])]
)
async def test_what_came_from_another_bridge_is_not_published_again(
    tmp_path: Path, wanted: str, published: list[str]
) -> None:
    path = tmp_path / "test.yaml"
    gate = "  gate: {kind: prop, source: motive, subject: gate}\nfederation:"
    path.write_text(
        BASE.replace("federation:", gate).replace(
            "PUBLISH", f"{{site: here, {wanted}zmq: {{bind: 'tcp://127.0.0.1:0'}}}}"
        )
    )
    config = load(path, env={}, resolve=resolve)
    publisher = make_publisher(config, World({}, ()), BridgeTime())
    assert publisher is not None
    answer = publisher.answer(encode_describe())
    assert answer is not None
    assert [a.name for a in decode_description(answer)[1].actors] == published
    assert (
        make_publisher(
            load(ROOT / "configs" / "two_rooms.yaml", env={}, resolve=resolve),
            World({}, ()),
            BridgeTime(),
        )
        is None
    )


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("tcp://192.0.2.1:5570", "nothing guards the way there"),
        ("tcp/192.0.2.1:7447", "nothing guards the way there"),
        ("tls/192.0.2.1:7447", ""),
        ("tcp://localhost:5570", ""),
        ("tcp://[::1]:5570", ""),
        ("192.0.2.1:5570", "must be written"),
        ("tcp://127.0.0.1:0", "must be written"),
    ],
)
def test_where_another_bridge_may_be(tmp_path: Path, address: str, said: str) -> None:
    found = problems(tmp_path, "{}", BASE.replace("tcp://127.0.0.1:5570", address))
    assert (said in found) if said else (found == "")
