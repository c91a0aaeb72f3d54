"""Our renderer against original FlightGoggles clients, over real sockets."""

from __future__ import annotations

import json
import logging
import threading
from collections import Counter
from functools import partial

import pytest

from tests.support.common import PATIENCE_S, wait_until
from tests.support.flightgoggles import (
    BLUE,
    RED,
    draw,
    golden,
    server,
    strict_read,
)
from tests.support.flightgoggles_peers import Socket, original_client
from vil_bridge.core.errors import RendererError
from vil_bridge.core.types import View, WorldSnapshot
from vil_renderer.flightgoggles.server import RenderedRequest

pytestmark = pytest.mark.wire


def ask_until_answered(poses: Socket, images: Socket, message: list[bytes]) -> list[bytes]:
    """Send the pose until a picture comes: the first ones meet no subscription."""

    def answered() -> int:
        poses.send_multipart(message)
        return images.poll(50)

    wait_until(answered)
    return images.recv_multipart()


@pytest.mark.parametrize("version", [1, 2, 3])
def test_original_clients_get_what_they_parse(version: int) -> None:
    with original_client() as (poses, images, taken), server(taken):
        sent = golden(f"pose_v{version}.json")
        header, (pixels,) = strict_read(version, ask_until_answered(poses, images, sent))
    message = json.loads(sent[1])
    stamp = "utime" if version == 1 else "ntime"
    assert header[stamp] == message[stamp]
    for key in ("camWidth", "camHeight", "camDepthScale"):
        assert header[key] == message[key]
    assert header["cameraIDs"] == [c["ID"] for c in message["cameras"]]
    if version == 1:
        assert (pixels[0, 0], pixels[-1, 0]) == (RED[0], BLUE[0])
    elif version == 2:
        assert (tuple(pixels[0, 0]), tuple(pixels[-1, 0])) == (RED, BLUE)
    else:
        assert header["cameraIndexes"] == [0]
        assert (pixels[0, 0], pixels[-1, 0]) == (0, 1000), "no hit is 0 on the wire"


@pytest.mark.parametrize("version", [2, 3])
def test_grey_has_three_bytes_per_pixel_for_v2_and_v3(version: int) -> None:
    topic, body = golden(f"pose_v{version}.json")
    message = json.loads(body)
    message["cameras"][0] |= {"channels": 1} if version == 2 else {"outputShaderType": 5}
    with original_client() as (poses, images, taken), server(taken):
        frames = ask_until_answered(poses, images, [topic, json.dumps(message).encode()])
    header, (pixels,) = strict_read(version, frames)
    assert header["channels"] == [1] and pixels.shape == (480, 640, 3)
    assert (pixels[0, 0].tolist(), pixels[-1, 0].tolist()) == ([RED[0]] * 3, [BLUE[0]] * 3)


@pytest.mark.parametrize(("scale", "near"), [(0.2, 2), (0.002, 195), (0.0, 255)])
def test_depth_is_grey_for_v1(scale: float, near: int) -> None:
    topic, body = golden("pose_v1.json")
    message = json.loads(body) | {"camDepthScale": scale}
    message["cameras"][0]["isDepth"] = True
    with original_client() as (poses, images, taken), server(taken):
        frames = ask_until_answered(poses, images, [topic, json.dumps(message).encode()])
    header, (pixels,) = strict_read(1, frames)
    assert header["channels"] == [1]
    # 1000 / 655.35 m of 1000 m times the scale; nothing was hit in the top row.
    assert (pixels[0, 0], pixels[-1, 0]) == (255, near)


def test_rubbish_does_not_stop_the_renderer() -> None:
    def picky(views: tuple[View, ...], snapshot: WorldSnapshot) -> RenderedRequest:
        if snapshot.t_ns == 13:
            raise RendererError("unlucky")
        return draw(views, snapshot)

    topic, body = golden("pose_v2.json")
    huge = body.replace(b'"position":[-2.0', b'"position":[-2e30')
    unlucky = json.dumps(json.loads(body) | {"ntime": 13}).encode()
    rubbish = [
        [b"Pose"],
        [b"Pose", b""],
        [b"Pose", b"\xff" * 90],
        [b"Pose", body[:-1]],
        [b"Pose", body, body],
        [b"Poser", body],
    ]
    with (
        original_client() as (poses, images, taken),
        server(taken, picky, newest_only=False) as counters,
    ):
        ask_until_answered(poses, images, [topic, body])
        for parts in (*rubbish, [topic, huge], [topic, unlucky]):
            poses.send_multipart(parts)
        ask_until_answered(poses, images, [topic, body])
        wait_until(
            lambda: counters["failed"] >= 1 and counters["malformed"] > len(rubbish),
            what=lambda: counters,
        )


def _more(counters: Counter[str], name: str, than: int) -> bool:
    return counters[name] > than


def test_resets_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "vil_renderer")
    kinds = [
        json.dumps({key: [{}]}).encode()
        for key in ("ntime", "utime", "camWidth", "camHeight", "camFOV")
    ]
    with original_client() as (poses, _, taken), server(taken, reset_s=0.05) as counters:
        for resets in range(8):
            before = counters["malformed"]

            def refused(wanted: int = before + len(kinds)) -> bool:
                for body in kinds:
                    poses.send_multipart([b"Pose", body])
                return counters["malformed"] >= wanted

            wait_until(refused)
            wait_until(partial(_more, counters, "resets", resets))
    assert 5 <= len(caplog.records) <= 17, "16 lines, then one in 30 s"


def test_newest_only_skips_what_waited() -> None:
    seen: list[int] = []
    busy, go_on = threading.Event(), threading.Event()

    def blocking(views: tuple[View, ...], snapshot: WorldSnapshot) -> RenderedRequest:
        seen.append(snapshot.t_ns)
        busy.set()
        go_on.wait(PATIENCE_S)
        return draw(views, snapshot)

    topic, body = golden("pose_v2.json")
    message = json.loads(body)
    with original_client() as (poses, images, taken), server(taken, blocking) as counters:

        def draws() -> bool:
            poses.send_multipart([topic, body])
            return busy.wait(0.05)

        wait_until(draws)
        for ntime in range(1, 6):
            poses.send_multipart([topic, json.dumps(message | {"ntime": ntime}).encode()])
        assert images.poll(200) == 0
        go_on.set()
        wait_until(lambda: seen[-1] == 5)
        assert counters["superseded"] >= 3 and len(seen) <= 4
