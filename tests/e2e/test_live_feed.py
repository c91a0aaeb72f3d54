"""The live feed of pages, against a running bridge.

Poses, previews, who reads slowly, who asks for nonsense.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
import simplejpeg
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.support.common import PATIENCE_S
from tests.support.dashboard_rig import GRAY, film, seat
from tests.support.events import until
from vil_bridge.daemon.bridge import Bridge
from vil_bridge.web import server, uvicorn_internals
from vil_bridge.web.live.codec import LivePoses, LivePreview, decode_live

pytestmark = pytest.mark.wire


EVERYTHING = {
    "poses_hz": 30,
    "previews": [
        {"camera": "front", "variant": "compensated", "hz": 15},
        {"camera": "front", "variant": "raw"},
    ],
}


@asynccontextmanager
async def feed_of(bridge: Bridge, path: str = "api/v1/live") -> AsyncIterator[ClientConnection]:
    url = bridge.http.url.replace("http", "ws", 1) + path
    async with connect(url, max_size=1 << 24, proxy=None, open_timeout=PATIENCE_S) as feed:
        yield feed


async def hear(feed: ClientConnection) -> LivePoses | LivePreview:
    message = await asyncio.wait_for(feed.recv(), 60.0)
    assert isinstance(message, bytes)
    return decode_live(message)


async def poses_of(feed: ClientConnection) -> LivePoses:
    while True:
        if isinstance(message := await hear(feed), LivePoses):
            return message


async def test_actors_move_with_their_states_and_bones(tmp_path: Path) -> None:
    async with seat(tmp_path) as bridge, feed_of(bridge) as feed:
        await feed.send(json.dumps({"poses_hz": 30}))
        nobody = await poses_of(feed)
        assert nobody.states == ("never seen",) * 3
        assert np.isnan(nobody.age_s).all()
        assert nobody.skeletons == ()
        seen, number = nobody, 0
        while seen.states[0] == "never seen" or not seen.skeletons:
            number += 1
            film(bridge, number, (0.5, -1.0, 1.5))
            seen = await poses_of(feed)
        assert seen.index.tolist() == [0, 1, 2]
        assert seen.states[2] == "never seen"
        np.testing.assert_allclose(seen.p_world_m[0], (0.5, -1.0, 1.5), atol=1e-6)
        (person,) = seen.skeletons
        assert person.index == 1
        np.testing.assert_allclose(person.p_world_m, [(4, 0, 1), (4, 0, 1.7)], atol=1e-6)
        np.testing.assert_allclose(np.abs(person.q_xyzw[0]), (0, 0, 0.70711, 0.70711), atol=1e-4)
        while (late := await poses_of(feed)).states[0] != "lost":
            pass
        assert late.age_s[0] > 1.0
        assert late.revision > nobody.revision  # the person's bones became known


async def test_both_variants_of_a_camera_beside_each_other(tmp_path: Path) -> None:
    async with seat(tmp_path) as bridge, feed_of(bridge) as feed:
        await feed.send(json.dumps(EVERYTHING))
        heard: dict[str, list[LivePreview]] = {"compensated": [], "raw": []}
        kinds: Counter[type] = Counter()
        while min(kinds[LivePoses], *map(len, heard.values())) < 6:
            message = await hear(feed)
            kinds[type(message)] += 1
            if isinstance(message, LivePreview):
                heard[message.header["variant"]].append(message)
        for variant, previews in heard.items():
            ids = [p.header["frame_id"] for p in previews]
            assert ids == sorted(set(ids)), variant
            picture = simplejpeg.decode_jpeg(previews[-1].jpeg)
            assert picture.shape == (48, 64, 3)
            assert abs(int(picture[24, 32, 0]) - GRAY) <= 2
        header = heard["compensated"][-1].header
        assert set(header) == {
            *("camera", "variant", "frame_id", "blank", "t_capture_ns", "t_image_ns"),
            *("age_s", "angle_rad", "width", "height", "K", "pose"),
        }
        assert len(header["pose"]["p_m"]) == 3
        assert np.linalg.norm(header["pose"]["q_xyzw"]) == pytest.approx(1.0)
        assert header["K"] == list(bridge.context.cameras["front"].camera.model.intrinsics_px)


async def test_nobody_who_watches_costs_nothing(tmp_path: Path) -> None:
    async with seat(tmp_path) as bridge:
        path = bridge.context.cameras["front"]
        async with feed_of(bridge) as feed:
            await feed.send(json.dumps({"previews": [{"camera": "front"}]}))
            await hear(feed)
            await until(lambda: path.relay.delivered["rgb/compensated"] > 0)
            assert path.relay.delivered["rgb/raw"] == 0
        await until(lambda: bridge.web.live.clients == 0)
        before, received = path.relay.delivered.copy(), path.meter.count
        await until(lambda: path.meter.count > received + 10)
        assert path.relay.delivered == before
        assert path.ledger.rows() == []  # pages only look on


WRONG = (
    ("nonsense", 1008, "subscription: Invalid JSON"),
    ('{"poses_hz": 31}', 1008, "poses_hz: Input should be less than or equal to 30"),
    ('{"previews": [{"camera": "rear"}]}', 1008, "no camera 'rear'; known: front, plain"),
    (
        '{"previews": [{"camera": "plain"}]}',
        1008,
        "camera 'plain' has no compensated pictures, only raw",
    ),
    (
        json.dumps({"previews": [{"camera": "front"}] * 9}),
        1008,
        "previews: List should have at most 8 items",
    ),
    ('{"poses": 30}', 1008, "poses: Extra inputs are not permitted"),
    (" " * 5000, 1009, ""),
)


async def test_a_wrong_subscription_is_refused_with_the_reason(tmp_path: Path) -> None:
    async with seat(tmp_path) as bridge:
        for said, code, told in WRONG:
            async with feed_of(bridge) as feed:
                await feed.send(said)
                with pytest.raises(ConnectionClosed) as closed:
                    await asyncio.wait_for(feed.recv(), 60.0)
            assert closed.value.rcvd is not None
            assert (closed.value.rcvd.code, told in closed.value.rcvd.reason) == (code, True), (
                closed.value.rcvd
            )
        assert bridge.web.live.counters["refused"] == len(WRONG) - 1


async def test_who_never_reads_is_skipped_and_cut_off_and_slows_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uvicorn_internals, "WRITE_TIMEOUT_MS", 5000)
    monkeypatch.setattr(server, "_SEND_BUFFER_BYTES", 4096)
    async with seat(tmp_path) as bridge, feed_of(bridge) as feed:
        with deaf_client(bridge) as deaf:
            await feed.send(json.dumps(EVERYTHING))
            counters = bridge.web.live.counters
            await until(lambda: bridge.web.live.clients == 2)
            async with asyncio.timeout(60):
                while counters["skipped"] <= 5:
                    await poses_of(feed)  # who only waits here is deaf too
            async with asyncio.timeout(35):  # an unanswered ping needs 40 s
                poses = 0
                while bridge.web.live.clients == 2:
                    await poses_of(feed)
                    poses += 1
            assert poses > 10, "the other client waited until the deaf one was cut off"
            assert deaf.fileno() >= 0


def deaf_client(bridge: Bridge) -> socket.socket:
    """A WebSocket by hand that subscribes to everything and never reads."""
    host, port = str(urlsplit(bridge.http.url).hostname), urlsplit(bridge.http.url).port
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect((host, port))
    client.sendall(
        f"GET /api/v1/live HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\n"
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    client.settimeout(60.0)
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):  # what is said before it is lost
        answer += client.recv(1) or pytest.fail(f"hung up: {answer!r}")
    text = json.dumps(EVERYTHING).encode()
    client.sendall(struct.pack(">BBH4s", 0x81, 0xFE, len(text), bytes(4)) + text)  # a mask of zeros
    return client


async def test_numbers_for_plots(tmp_path: Path) -> None:
    async with seat(tmp_path) as bridge, feed_of(bridge, "api/v1/plotjuggler") as feed:
        number = 1
        film(bridge, number, (1.0, 0.5, 2.0))
        while "actors/drone/x" not in json.loads(await asyncio.wait_for(feed.recv(), 60.0)):
            number += 1
            film(bridge, number, (1.0, 0.5, 2.0))
        stamps = []
        for _ in range(5):
            message = json.loads(await asyncio.wait_for(feed.recv(), 60.0))
            assert all(isinstance(value, int | float) for value in message.values())
            stamps.append(message["timestamp"])
        assert stamps == sorted(set(stamps))
        assert (message["actors/drone/x"], message["actors/drone/z"]) == (1.0, 2.0)
        assert "actors/unseen/x" not in message
        assert message["cameras/front/measured_hz"] > 0
