"""Each row of the truth table in docs/concepts/reliability.md, carried out on a whole bridge."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import zmq

from tests.soak.plant import RADIO
from tests.support.bridge_rig import running
from tests.support.events import until
from tests.support.truth_rig import LIMIT_S, TIMEOUT_S, Seen, TruthRig, seen_of, truth_rig
from tests.support.truth_table import PAGE, ROWS, Row, table
from vil_adapters.lab.link import LinkEmulator
from vil_adapters.lab.link_spec import LinkSpec
from vil_bridge.client import Receiver
from vil_bridge.monitoring import state_changes as transitions
from vil_bridge.protocols.natnet.codec import MessageId, encode
from vil_bridge.web.client import BridgeApi
from vil_renderer.flightgoggles.client import FlightGogglesClient

pytestmark = pytest.mark.wire

_UNPROVEN: Final = 'vil_output_events_total{event="unproven",output="mirror"}'
EXECUTED: Final = {
    *(
        "mocap stopped",
        "mocap frozen",
        "body lost",
        "renderer stopped",
        "renderer frozen",
        "renderer slow",
    ),
    *("renderer very slow", "frames lost", "forged peer"),
    *("renderer repeats two", "renderer repeats three"),
    *("renderer garbage", "faults", "replay", "link cut", "bridge stopped", "too old", "no camera"),
}


def told(row: Row, now: Seen) -> bool:
    """True when everything but the log is as the row says."""
    words = (*now.reasons, *now.degraded, *now.status["modes"])
    header = (
        any(row.header in text for text in words)
        if row.header
        else not now.reasons and not now.status["modes"]
    )
    metric = not row.metric or now.metrics.get(row.metric[0]) == row.metric[1]
    degraded = not row.degraded or now.degraded
    ready = now.readyz == row.readyz and now.status["ready"] is (row.readyz == 200)
    return bool(ready and degraded and header and metric)


async def carried_out(rig: TruthRig, name: str, after: int) -> None:
    """Wait until all of a row holds at one moment, and its event is in the log."""
    row = ROWS[name]
    await rig.until(lambda now: now.alive is row.alive and told(row, now))
    if row.log:
        await rig.logged(after, *row.log, before=row.degraded)


@pytest.fixture(autouse=True)
def each_change_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Faults follow each other at once: without pause between two lines of one thing."""
    monkeypatch.setattr(transitions, "PAUSE_NS", 0)


async def well_again(rig: TruthRig, after: int) -> None:
    """Wait until all works, and the log says so: what it has not said cannot change."""
    await rig.well()
    await rig.logged(after, "front", "pictures flow", "info")


def test_the_page_has_this_table() -> None:
    assert table() in PAGE.read_text(), "python -m tests.support.truth_table"
    assert set(ROWS) == EXECUTED


async def test_faults_of_mocap_and_renderer(tmp_path: Path) -> None:
    async with truth_rig(tmp_path) as rig:
        after = await rig.last_event()
        rig.motive.stop()
        await carried_out(rig, "mocap stopped", after)
        await rig.motive.start()
        await well_again(rig, after)

        after = await rig.last_event()
        rig.motion.frozen = True
        await carried_out(rig, "mocap frozen", after)
        rig.motion.frozen = False
        await well_again(rig, after)

        after = await rig.last_event()
        rig.motion.unseen = {"cf1"}
        await carried_out(rig, "body lost", after)
        rig.motion.unseen = set()
        await well_again(rig, after)

        after = await rig.last_event()
        await rig.stop_renderer()
        await carried_out(rig, "renderer stopped", after)
        await rig.start_renderer()
        await well_again(rig, after)

        for in_turn, fault in enumerate(
            ("renderer frozen", "renderer repeats two", "renderer repeats three"), 1
        ):
            after = await rig.last_event()
            rig.painter.in_turn = in_turn
            await carried_out(rig, fault, after)
            rig.painter.in_turn = 0
            await well_again(rig, after)


async def test_a_slow_and_a_broken_renderer(tmp_path: Path) -> None:
    async with truth_rig(tmp_path) as rig:
        after = await rig.last_event()
        rig.painter.delay_s = 0.05
        await carried_out(rig, "renderer slow", after)
        assert any("left out" in words for words in (await rig.seen()).status["overload"])
        rig.painter.delay_s = 0.25
        await carried_out(rig, "renderer very slow", after)
        rig.painter.delay_s = 0.0
        await rig.well()

        before = (
            (await rig.seen()).status["renderers"]["hall"]["report"]["counters"].get("malformed", 0)
        )
        with _garbage(rig):
            await rig.until(
                lambda now: (
                    now.status["renderers"]["hall"]["report"]["counters"].get("malformed", 0)
                    > before
                )
            )
            await carried_out(rig, "renderer garbage", after)


@contextlib.contextmanager
def _garbage(rig: TruthRig) -> Iterator[None]:
    client = rig.bridge.context.pool.renderers["hall"]
    assert isinstance(client, FlightGogglesClient)
    with zmq.Context() as context, context.socket(zmq.PUB) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(f"tcp://127.0.0.1:{client.image_port}")
        task = asyncio.get_running_loop().create_task(_send_garbage(socket))
        try:
            yield
        finally:
            task.cancel()


async def _send_garbage(socket: zmq.Socket[bytes]) -> None:
    while True:
        socket.send_multipart([b'{"ntime": "never"}', b"\xff" * 99])
        await asyncio.sleep(0.02)


async def test_a_forged_peer(tmp_path: Path) -> None:
    async with truth_rig(tmp_path) as rig:
        after = await rig.last_event()
        output, _ = rig.bridge.context.outputs.outputs["mirror"]
        address = str(output.status.report().facts["address"])
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as victim:
            victim.bind(("127.0.0.1", 0))
            victim.setblocking(False)
            victim.sendto(encode(MessageId.CONNECT), ("127.0.0.1", int(address.rpartition(":")[2])))
            await rig.until(lambda now: now.metrics.get(_UNPROVEN, 0.0) >= 20.0)
            await carried_out(rig, "forged peer", after)
            with contextlib.suppress(BlockingIOError):
                answers = [victim.recv(65536)]
                answers.append(victim.recv(65536))
        assert len(answers) == 1


async def test_modes_and_links(tmp_path: Path) -> None:
    async with truth_rig(tmp_path) as rig:
        api = BridgeApi(rig.bridge.http.url, timeout_s=LIMIT_S)
        after = await rig.last_event()
        await asyncio.to_thread(api.put_faults, "motive", "loss=5%")
        await carried_out(rig, "faults", after)
        await asyncio.to_thread(api.put_faults, "motive", "loss=20%")
        await carried_out(rig, "frames lost", after)
        await asyncio.to_thread(api.put_faults, "motive", "")
        await asyncio.to_thread(api.start_recording, "flight")
        meter = rig.bridge.context.sources["motive"].meter
        flown = meter.count + 100
        await until(lambda: meter.count > flown, LIMIT_S)
        await asyncio.to_thread(api.stop_recording)
        await asyncio.to_thread(api.start_replay, "flight", loop=True)
        await carried_out(rig, "replay", after)
        await asyncio.to_thread(api.stop_replay)
        await rig.well()
        await _link_cut(rig)


async def _link_cut(rig: TruthRig) -> None:
    """A second reader behind a radio link, which is cut."""
    ports = (
        int(rig.bridge.context.hub.endpoint.rpartition(":")[2]),
        rig.bridge.context.cameras["front"].sink.port,
    )
    links = [LinkEmulator(LinkSpec.parse(f"tcp:{RADIO}:{port}={port}")) for port in ports]
    for link in links:
        await link.start()
    far = Receiver(f"tcp://{RADIO}:{ports[0]}", "front", variant="raw", timeout_s=TIMEOUT_S)
    try:
        await until(lambda: far.alive, LIMIT_S)
        for link in links:
            link.change("cut=60s@0ms")
        row = ROWS["link cut"]
        await rig.until(
            lambda now: (
                far.alive is row.alive and "no answer from" in far.problem and told(row, now)
            )
        )
    finally:
        await asyncio.to_thread(far.close)
        for link in links:
            await link.stop()


async def test_all_pictures_too_old(tmp_path: Path) -> None:
    async with truth_rig(tmp_path, "max_age_ms: 200") as rig:
        after = await rig.last_event()
        rig.painter.delay_s = 0.43
        await carried_out(rig, "too old", after)


async def test_the_bridge_stops(tmp_path: Path) -> None:
    row = ROWS["bridge stopped"]
    async with contextlib.AsyncExitStack() as stack:
        rig = await stack.enter_async_context(truth_rig(tmp_path))
        receiver = Receiver(
            rig.bridge.context.hub.endpoint, "front", variant="raw", timeout_s=TIMEOUT_S
        )
        stack.push_async_callback(asyncio.to_thread, receiver.close)
        await until(lambda: receiver.alive, LIMIT_S)
        rig.bridge.http.stop()
        rig.bridge.context.hub.close()
        rig.bridge.context.pool.stop()
        await until(
            lambda: receiver.alive is row.alive and "no answer from" in receiver.problem, LIMIT_S
        )
        with pytest.raises(OSError):
            await rig.get("readyz")


async def test_no_camera() -> None:
    row = ROWS["no camera"]
    text = (
        'version: 1\nstream: {bind: "tcp://127.0.0.1:0"}\nhttp: {port: 0}\nrealtime: '
        "{fifo_priority: 0}\n"
    )
    async with running(text) as bridge:
        receiver = Receiver(bridge.context.hub.endpoint, "front", timeout_s=TIMEOUT_S)
        try:
            await until(lambda: "no camera named 'front'" in receiver.problem, LIMIT_S)
            now = await seen_of(bridge, receiver)
            assert now.alive is row.alive and told(row, now), (
                now.alive,
                now.readyz,
                now.reasons,
                now.metrics,
            )
        finally:
            await asyncio.to_thread(receiver.close)
