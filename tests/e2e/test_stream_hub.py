"""Hub and sink over real sockets, against clients that misbehave in every way."""

from __future__ import annotations

import contextlib
import os
import resource
import socket as sockets

import msgspec
import numpy as np
import pytest
import zmq

from tests.support.common import wait_until
from tests.support.stream_rig import PATIENCE_NS, K, RawClient, StreamRig, header, photo
from vil_bridge.core.clock import now_ns
from vil_bridge.core.errors import SinkError
from vil_bridge.core.frame_header import FrameStamps
from vil_bridge.outputs.stream import hub, reader_registry
from vil_bridge.outputs.stream.control_limits import MessageLimits, Sender
from vil_bridge.outputs.stream.reader_registry import SEATS_OF_ONE
from vil_bridge.outputs.stream.zmq_sink import ZmqStreamSink

pytestmark = pytest.mark.wire


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers that say nothing stay: these here never ping, and a busy machine takes long."""
    monkeypatch.setattr(hub, "_SILENCE_NS", PATIENCE_NS)
    monkeypatch.setattr(reader_registry, "_PRESENT_NS", PATIENCE_NS)


SMALL = np.arange(6 * 8 * 3, dtype=np.uint8).reshape(6, 8, 3)


def connected(rig: StreamRig, client: RawClient, token: str) -> int:
    """Offer pictures until the data connection stands.

    Returns the id of the picture that arrived.
    """
    frame_id = 0

    def arrives() -> bool:
        nonlocal frame_id
        frame_id += 1
        rig.offer(SMALL, header(frame_id))
        rig.settle()
        return bool(client.data.poll(0))

    wait_until(arrives)

    def acknowledged() -> bool:
        """The newest picture is the last one that was sent, so that none is on its way."""
        picture = client.picture(0.0)
        if picture is None:
            return False
        # On a link that takes no time, however late the test looks.
        sent_ns = picture[0]["stamps_ns"]["send"]
        client.acknowledge(token, picture[0]["frame_id"], sent_ns)
        return bool(picture[0]["frame_id"] == frame_id)

    wait_until(acknowledged)
    wait_until(lambda: reader(rig)["in_flight"] == 0)
    return frame_id


def reader(rig: StreamRig, index: int = 0) -> dict[str, object]:
    report: dict[str, object] = rig.hub.report()["front"][index]
    return report


def test_a_registered_client_gets_the_picture_with_its_metadata() -> None:
    with StreamRig() as rig, RawClient(rig.endpoint) as client:
        token = client.register()
        base = connected(rig, client, token)
        rig.offer(SMALL, header(base + 1, range_m=2.5))
        picture = client.picture()
        assert picture is not None
        head, payload = picture
        assert payload == SMALL.tobytes()
        assert (head["frame_id"], head["K"], head["range_m"], head["variant"]) == (
            base + 1,
            K,
            2.5,
            "compensated",
        )
        assert (head["format"], head["width"], head["height"], head["rows"]) == (
            "rgb8",
            8,
            6,
            "top_down",
        )
        stamps = head["stamps_ns"]
        assert rig.sent[-1] == (base + 1, stamps)
        assert stamps["request"] <= stamps["encode"] <= stamps["send"] <= now_ns()


def test_registration_tells_the_camera_and_refuses_with_a_reason() -> None:
    with (
        StreamRig({"front": ("rgb", "depth"), "rear": ("rgb",)}) as rig,
        RawClient(rig.endpoint) as client,
    ):
        ok = client.ask(type="register", v=1, camera="front", name="jetson")
        assert ok["camera"]["fx"] == 457.0 and ok["camera"]["name"] == "front"
        assert len(bytes.fromhex(ok["token"])) == 16
        for wish, reason in (
            ({"camera": "top"}, "no camera named 'top'"),
            ({"camera": "rear", "modality": "depth"}, "camera 'rear' has no 'depth', only rgb"),
            (
                {"camera": "front", "modality": "depth", "encoding": "jpeg"},
                "depth is sent as encoding 'raw' or",
            ),
            ({"camera": "front", "v": 2}, "this bridge speaks protocol 1, the client 2"),
        ):
            answer = client.ask(**{"type": "register", "v": 1, **wish})
            assert answer["type"] == "error" and answer["reason"].startswith(reason), answer
            assert answer["known"] == ["front", "rear"]
        assert rig.hub.counters["refused"] == 4
        assert reader(rig)["name"] == "jetson"


def test_asking_twice_gives_one_stream_and_unregistering_none() -> None:
    with StreamRig() as rig, RawClient(rig.endpoint) as client:
        first = client.ask(type="register", v=1, camera="front")["token"]
        second = client.ask(type="register", v=1, camera="front")["token"]
        assert first != second and len(rig.sink().subscribers) == 1
        assert client.ask(type="ping", token=first, t1=5)["known"] is False
        client.say(type="unregister", token=second)
        assert client.ask(type="ping", token=second, t1=6)["known"] is False
        assert rig.sink().subscribers == () and not rig.sink().wanted("rgb", "compensated")


def test_the_number_of_subscribers_of_one_address_is_bounded() -> None:
    with StreamRig() as rig, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(RawClient(rig.endpoint)) for _ in range(SEATS_OF_ONE + 1)]
        answers = [client.ask(type="register", v=1, camera="front") for client in clients]
        assert [answer["type"] for answer in answers] == ["registered"] * SEATS_OF_ONE + ["error"]
        assert answers[-1]["reason"] == "64 subscribers of the address 127.0.0.1 already"


def test_a_client_that_never_acknowledges_gets_two_pictures_and_no_third() -> None:
    with StreamRig() as rig, RawClient(rig.endpoint) as client:
        token = client.register()
        base = connected(rig, client, token)
        before = rig.hub.report()["front"][0]
        for i in range(1, 21):
            rig.offer(SMALL, header(base + i))
        rig.settle()
        assert [(client.picture() or ({},))[0]["frame_id"] for _ in range(2)] == [
            base + 1,
            base + 2,
        ]
        assert client.picture(0.3) is None
        after = rig.hub.report()["front"][0]
        assert after["sent"] - before["sent"] == 2 and after["in_flight"] == 2
        # 20 offered: 2 sent, 17 superseded, 1 still waits, and goes out when credit comes.
        assert after["dropped"]["superseded"] - before["dropped"].get("superseded", 0) == 17
        assert rig.sink().dropped == after["dropped"]
        client.acknowledge(token, base + 1)
        picture = client.picture()
        assert picture is not None and picture[0]["frame_id"] == base + 20
        assert client.picture(0.1) is None


def test_credit_counts_once_and_only_for_pictures_that_were_sent() -> None:
    with StreamRig() as rig, RawClient(rig.endpoint) as client:
        token = client.register()
        base = connected(rig, client, token)
        for i in range(1, 4):
            rig.offer(SMALL, header(base + i))
        rig.settle()
        stray = rig.hub.counters["stray"]
        client.acknowledge(token, base - 1)
        client.acknowledge(token, base + 3)
        client.acknowledge("somebody else", base + 1)
        assert client.ask(type="ping", token=token, t1=1)["in_flight"] == 2
        assert rig.hub.counters["stray"] == stray + 3


def test_an_acknowledgement_that_got_lost_costs_no_credit_for_ever() -> None:
    with StreamRig() as rig, RawClient(rig.endpoint) as client:
        token = client.register()
        base = connected(rig, client, token)
        lost = rig.hub.report()["front"][0]["dropped"].get("lost", 0)

        def arrives(number: int) -> bool:
            rig.offer(SMALL, header(base + number))
            picture = client.picture()
            return picture is not None and picture[0]["frame_id"] == base + number

        assert arrives(1)  # nothing is said about this picture
        assert arrives(2)
        client.acknowledge(token, base + 2)
        wait_until(lambda: rig.hub.report()["front"][0]["in_flight"] == 0)
        assert arrives(3) and arrives(4)
        rig.offer(SMALL, header(base + 5))
        assert client.picture(0.3) is None
        assert rig.hub.report()["front"][0]["dropped"]["lost"] == lost + 1


def test_a_credit_is_cheap_unless_nothing_was_sent_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with StreamRig() as rig, RawClient(rig.endpoint) as client:
        token = client.register()
        costs: list[tuple[Sender, float]] = []
        monkeypatch.setattr(
            rig.hub._limits, "charge", lambda kind, _, cost, __: costs.append((kind, cost))
        )
        client.acknowledge(token, 1)
        wait_until(lambda: len(costs) == 2)
    assert [kind for kind, _ in costs] == [Sender.READER] * 2
    assert 0.25 < costs[0][1] < 0.5 and costs[1][1] == 0.75


def test_receive_times_reach_the_ledger_and_absurd_ones_do_not() -> None:
    with StreamRig() as rig, RawClient(rig.endpoint) as client:
        token = client.register()
        base = connected(rig, client, token)
        rig.received.clear()
        for i, skew_ns in enumerate((0, None, -(10**12), 10**9), start=1):
            rig.offer(SMALL, header(base + i))
            assert client.picture() is not None
            t_ns = None if skew_ns is None else now_ns() + skew_ns
            client.say(
                type="credit", token=token, frame_id=base + i, t_received_ns=t_ns, uncertainty_ns=7
            )
        wait_until(lambda: rig.hub.counters["odd_stamp"] == 2)
        assert [entry[:2] for entry in rig.received] == [("front", base + 1)]
        assert reader(rig)["clock_uncertainty_ns"] == 7


def test_a_slow_subscriber_does_not_delay_the_fast_one() -> None:
    with StreamRig() as rig, RawClient(rig.endpoint) as slow, RawClient(rig.endpoint) as fast:
        token = fast.register()
        base = connected(rig, fast, token)
        slow.register()
        pixels = photo()
        for i in range(base + 1, base + 61):
            rig.offer(pixels, header(i))
            picture = fast.picture()
            assert picture is not None and picture[0]["frame_id"] == i, (
                "each one comes, and the slow one takes two"
            )
            fast.acknowledge(token, i)
            wait_until(lambda: reader(rig)["in_flight"] == 0)
        assert reader(rig, 1)["sent"] <= 2  # type: ignore[operator]


def test_each_encoding_is_made_once_and_each_reader_gets_its_own() -> None:
    with StreamRig() as rig, RawClient(rig.endpoint) as rgb, RawClient(rig.endpoint) as gray:
        rgb.register(color="rgb")
        gray.register(color="gray")
        depth = RawClient(rig.endpoint)
        depth.register(modality="depth")
        raw = RawClient(rig.endpoint)
        raw.register(variant="raw")
        wait_until(lambda: len(rig.sink().subscribers) == 4)
        deep = np.full((6, 8), 30000, np.uint16)
        ids = iter(range(1, 10**6))

        def all_have_one() -> bool:
            rig.offer(SMALL, header(next(ids)))
            rig.offer(SMALL, header(next(ids), variant="raw"))
            rig.offer(deep, header(next(ids), modality="depth"))
            rig.settle()
            return all(client.data.poll(0) for client in (rgb, gray, depth, raw))

        wait_until(all_have_one)
        pictures = [client.picture() for client in (rgb, gray, depth, raw)]
        formats = [
            (p[0]["format"], p[0]["modality"], p[0]["variant"]) for p in pictures if p is not None
        ]
        assert formats == [
            ("rgb8", "rgb", "compensated"),
            ("gray8", "rgb", "compensated"),
            ("depth16", "depth", "compensated"),
            ("rgb8", "rgb", "raw"),
        ]
        assert pictures[2] is not None and pictures[2][1] == deep.tobytes()
        depth.close()
        raw.close()


def test_a_picture_beyond_the_age_limit_is_dropped() -> None:
    with StreamRig() as rig, RawClient(rig.endpoint) as client:
        base = connected(rig, client, client.register())
        rig.sink().max_age_ns = 60 * 10**9
        old_ns = now_ns() - 61 * 10**9
        rig.offer(SMALL, header(base + 1, stamps_ns=FrameStamps(request=old_ns)))
        rig.offer(SMALL, header(base + 2))
        picture = client.picture()
        assert picture is not None and picture[0]["frame_id"] == base + 2
        assert reader(rig)["dropped"]["too_old"] == 1  # type: ignore[index]
        assert reader(rig)["in_flight"] == 1  # its credit came back


def test_a_silent_subscriber_is_dropped_after_three_seconds_and_a_pinging_one_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.undo()  # the hub's own patience
    with StreamRig() as rig, RawClient(rig.endpoint) as silent, RawClient(rig.endpoint) as lively:
        silent.register()
        token = lively.register()
        t0_ns = now_ns()
        wait_until(
            lambda: (
                lively.ask(type="ping", token=token, t1=0)["known"] and rig.hub.counters["silent"]
            ),
            period_s=0.1,
        )
        assert now_ns() - t0_ns > 2.9e9
        assert [s.token for s in rig.sink().subscribers] == [token]


def test_status_and_commands() -> None:
    def halve(args: dict[str, object]) -> float:
        value = args.get("value")
        if not isinstance(value, int):
            raise ValueError("value must be a whole number")
        return value / 2

    def refuse(args: dict[str, object]) -> None:
        raise SinkError("not now")

    with (
        StreamRig(commands={"halve": halve, "refuse": refuse}) as rig,
        RawClient(rig.endpoint) as client,
    ):
        assert client.ask(type="status", id=2) == {
            "type": "error",
            "reason": "the status is for registered readers; register first",
        }
        client.register()
        assert client.ask(type="status", id=3) == {
            "type": "status",
            "id": 3,
            "status": {"state": "fine"},
        }
        answers = [
            client.ask(type="command", id=i, name=name, args=args)
            for i, (name, args) in enumerate(
                [("halve", {"value": 5}), ("halve", {}), ("refuse", {}), ("explode", {})], start=1
            )
        ]
        assert answers == [
            {"type": "result", "id": 1, "ok": True, "value": 2.5},
            {"type": "result", "id": 2, "ok": False, "error": "value must be a whole number"},
            {"type": "result", "id": 3, "ok": False, "error": "not now"},
            {
                "type": "result",
                "id": 4,
                "ok": False,
                "error": "unknown command 'explode'; known: ['halve', 'refuse']",
            },
        ]


def test_a_pilot_is_heard_while_strangers_use_up_what_strangers_may() -> None:
    with StreamRig(commands={"hover": lambda _: None}) as rig, RawClient(rig.endpoint) as pilot:
        limits = rig.hub._limits = MessageLimits(lambda: 0.0)
        done = {"type": "result", "id": 1, "ok": True, "value": None}
        assert pilot.ask(type="command", id=1, name="hover", args={}) == done
        for n in range(4):
            limits.charge(Sender.STRANGER, b"%d" % n, 500.0, 1)
        with RawClient(rig.endpoint) as stranger:
            stranger.say(type="ping", t1=1)
            wait_until(lambda: rig.hub.counters["flood"] == 1)
        assert pilot.ask(type="command", id=1, name="hover", args={}) == done


def test_pong_carries_four_timestamps() -> None:
    with StreamRig() as rig, RawClient(rig.endpoint) as client:
        t1 = now_ns()
        pong = client.ask(type="ping", t1=t1)
        assert t1 == pong["t1"] < pong["t2"] <= pong["t3"] < now_ns()
        assert pong["known"] is False and pong["instance"]


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"variant": "tcp"}, "Invalid enum value 'tcp' - at `$.variant`"),
        ({"v": "1"}, "Expected `int`, got `str` - at `$.v`"),
        ({"camera": "a" * 65}, "Expected `str` of length <= 64 - at `$.camera`"),
        ({"type": "subscribe"}, "Invalid value 'subscribe' - at `$.type`"),
    ],
)
def test_a_wrong_message_is_answered_with_the_reason(wrong: dict[str, object], reason: str) -> None:
    with StreamRig() as rig, RawClient(rig.endpoint) as client:
        answer = client.ask(**{"type": "register", "v": 1, "camera": "front", **wrong})
        assert (answer["type"], answer["reason"]) == (
            "error",
            f"{reason}. See the messages in docs/reference/stream.md",
        )
        client.control.send_multipart([b"two", b"frames"])
        assert (
            client.hear()["reason"]
            == "A message is one frame. See the messages in docs/reference/stream.md"
        )


def test_garbage_on_the_control_channel_is_counted() -> None:
    good = msgspec.json.encode({"type": "register", "v": 1, "camera": "front", "name": "é"})
    garbage = [good[:i] for i in range(len(good))]
    garbage += [os.urandom(n) for n in (1, 10, 1000, 60_000)]
    garbage += [b"[" * 60_000, b'{"type":"command","id":1,"name":"x","args":{"a":' + b"[" * 50_000]
    garbage += [
        b'{"type":"ping"}',
        b'{"type":"ping","t1":1e400}',
        b'{"type":"nonsense"}',
        b'{"type":["ping"]}',
    ]
    garbage += [
        b'{"type":"ping","t1":' + b"9" * 5000 + b"}",
        b'{"type":"register","v":1,"camera":' + b'"a' * 200,
    ]
    with StreamRig() as rig, RawClient(rig.endpoint) as client:
        for payload in garbage:
            client.control.send(payload)
        client.say(type="ping", t1=77)
        assert {client.hear()["type"] for _ in garbage} == {"error"}
        assert client.hear()["t1"] == 77
        assert rig.hub.counters["malformed"] == len(garbage)
        assert rig.sink().subscribers == ()


def test_garbage_on_the_data_port_is_discarded_and_bounded() -> None:
    with StreamRig() as rig, RawClient(rig.endpoint) as client, RawClient(rig.endpoint) as vandal:
        token = client.register()
        base = connected(rig, client, token)
        vandal.data.setsockopt(zmq.SNDHWM, 10)
        vandal.data.connect(f"tcp://127.0.0.1:{rig.sink().port}")
        rss_before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(5):
            with (
                sockets.create_connection(("127.0.0.1", rig.sink().port)) as peer,
                contextlib.suppress(OSError),
            ):
                peer.sendall(os.urandom(1_000_000))
        for i in range(1, 101):
            with contextlib.suppress(zmq.Again):
                vandal.data.send_multipart(
                    [b"x"] * 5 if i % 3 else [bytes(10_000_000)], zmq.NOBLOCK
                )
            rig.offer(SMALL, header(base + i))
            picture = client.picture()
            assert picture is not None and picture[0]["frame_id"] == base + i
            client.acknowledge(token, base + i)
            wait_until(lambda: reader(rig)["in_flight"] == 0)
        assert rig.sink().unwanted > 0
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - rss_before_kb < 150_000


def test_a_port_in_use_is_a_clear_error() -> None:
    sink = ZmqStreamSink("front", {"rgb": ("raw",)})
    with pytest.raises(SinkError, match="cannot bind the stream of camera 'rear'"):
        ZmqStreamSink("rear", {"rgb": ("raw",)}, port=sink.port)
    sink.close()
