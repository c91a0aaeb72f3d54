"""Flightmare: lists that cannot be opened, camera poses never set, many cameras, refusals by
kind.
"""

from __future__ import annotations

import contextlib
import copy
import json
import logging
import math
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import zmq

from tests.support.common import PATIENCE_S
from tests.support.flightgoggles import view
from tests.support.flightgoggles_peers import sockets
from tests.support.flightmare import FRONT, Pump, client, draw, ports, server
from tests.support.flightmare_exchange import ROOMY, exchange
from tests.support.flightmare_original import UNTURNED, OldClient, camera, vehicle
from tests.support.flightmare_unity import unity
from vil_bridge.core.types import View, WorldSnapshot
from vil_renderer.flightmare.codec import decode_request
from vil_renderer.flightmare.layout import slots_of
from vil_renderer.flightmare.messages import SceneMessage
from vil_renderer.flightmare.server import RenderedRequest

pytestmark = pytest.mark.wire


UNSET_POSES: dict[str, list[float | None]] = {
    "zeros": [0.0] * 16,
    "garbage": [6.9e-310, 1e300, *([3.5] * 14)],
    "not finite": [math.nan] * 16,
    "mirrored": [-1.0, *UNTURNED[1:]],
}


def test_the_program_of_2022_dies_of_a_list_that_it_cannot_open() -> None:
    with client(dialect="2022") as bridge, unity(ports(bridge), dialect="2022") as program:
        Pump(bridge).frames_reach(3)
        assert program.died == ""
    with (
        client(dialect="2022", object_csv="/nowhere/static.csv") as bridge,
        unity(ports(bridge), dialect="2022") as program,
    ):
        Pump(bridge).until(lambda: program.died != "")
        assert "No such file" in program.died and program.readies == 0
        assert "object_csv = '/nowhere/static.csv'" in bridge.status.report().reason


def test_an_empty_list_is_refused_by_the_configuration() -> None:
    with pytest.raises(ValueError, match="object_csv"), client(dialect="2022", object_csv=""):
        pass


@pytest.mark.parametrize("kind", UNSET_POSES)
def test_a_camera_pose_that_was_never_set_is_the_bodys_origin(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[tuple[View, ...]] = []

    def spying(views: tuple[View, ...], snapshot: WorldSnapshot) -> RenderedRequest:
        seen.append(views)
        return draw(views, snapshot)

    caplog.set_level(logging.WARNING, "vil_renderer")
    with OldClient("master", cameras=2) as old, server(old.taken, spying) as counters:
        for each in old.vehicles[0]["cameras"]:
            # JSON has no NaN: flightlib's writer puts null.
            each["T_BC"] = [None if math.isnan(v or 0.0) else v for v in UNSET_POSES[kind]]
        settings = copy.deepcopy(old.vehicles)
        old.connect()
        exchange(old, range(1, 20))
        x, y, z = old.vehicles[0]["position"]
        assert np.allclose(seen[-1][0].T_world_camera.p_m, (x, z, y)), "Unity's axes have y up"
        assert np.allclose(seen[-1][0].T_world_camera.rotation()[:, 2], (0.0, 1.0, 0.0)), (
            "it looks along the body's y"
        )
        assert counters["malformed"] == counters["failed"] == 0 and counters["unset_poses"] == 1
        assert [r.getMessage().count("T_BC is not the matrix") for r in caplog.records] == [1]
        old.close()
        with OldClient("master", taken=old.taken) as other:
            other.vehicles = settings
            other.connect()
            assert len(caplog.records) == 2, (
                "another client is warned too, even with the same settings"
            )


def test_what_was_refused_before_the_client_hears_us_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "vil_renderer")
    with OldClient("master") as old:
        settings = json.dumps(old.settings()).encode()
    wrong = settings.replace(b'"fov"', b'"angle"')
    with sockets(zmq.PUB, zmq.SUB) as (poses, images):
        pose_port, image_port = (
            socket.bind_to_random_port("tcp://127.0.0.1") for socket in (poses, images)
        )
        with server((pose_port, image_port)) as counters:
            _send_until(poses, wrong, lambda: counters["malformed"] >= 3)
            images.subscribe(b"")
            _send_until(poses, settings, lambda: images.poll(0))
            _send_until(poses, wrong, lambda: counters["malformed"] >= 20)
    assert len(caplog.records) == 1, "one client, one kind"


def _send_until(poses: Any, body: bytes, done: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline
        poses.send_multipart([b"Pose", body])
        threading.Event().wait(0.005)


@pytest.mark.parametrize(("vehicles", "cameras"), [(256, 1), (1, 64)])
def test_as_many_vehicles_and_cameras_as_flightlib_asks_for_connect(
    vehicles: int, cameras: int
) -> None:
    with OldClient("master", hwm=ROOMY) as old:
        old.vehicles = _many(vehicles, cameras)
        with server(old.taken) as counters:
            old.connect()
            for number in (1, 2):
                assert len(old.frame(number)) == vehicles * cameras
            assert counters["malformed"] == counters["failed"] == 0


def test_256_vehicles_with_64_cameras_are_understood() -> None:
    body = json.dumps({"scene_id": 1, "vehicles": _many(256, 64), "objects": []}).encode()
    settings = decode_request([b"Pose", body])
    assert isinstance(settings, SceneMessage)
    assert len(slots_of(settings.vehicles)) == 256 * 64


def _many(vehicles: int, cameras: int) -> list[dict[str, Any]]:
    return [
        vehicle(
            f"quadrotor{v}",
            "master",
            [camera(f"quadrotor{v}_{c}", "master", 8, 8, (False,) * 3, c) for c in range(cameras)],
        )
        for v in range(vehicles)
    ]


def test_each_kind_of_refusal_is_logged_once_per_peer(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "vil_renderer")
    context: Any = zmq.Context()
    with (
        client() as bridge,
        server(ports(bridge)),
        contextlib.closing(context.socket(zmq.PUB)) as stranger,
    ):
        pump = Pump(bridge)
        pump.frames_reach(3)
        stranger.connect(f"tcp://127.0.0.1:{bridge.image_port}")

        def seen() -> bool:
            stranger.send_multipart([b'{"frame_id":"one","pub_vehicles":[]}'])
            stranger.send_multipart([b'{"ready":true}', b"more"])
            return bridge.status.counters["malformed"] >= 10

        pump.until(seen)
        report = bridge.status.report()
        kinds = report.facts["refusals"]
        assert len(kinds) == 2 and all("was dropped" in kind for kind in kinds)
        assert sum(kinds.values()) >= 10
        assert len(caplog.records) == 2
    context.destroy(linger=0)


def test_a_new_renderer_does_not_inherit_the_refusals_of_the_one_before() -> None:
    context: Any = zmq.Context()

    def failing(views: tuple[View, ...], snapshot: WorldSnapshot) -> RenderedRequest:
        if snapshot.t_ns % 3 == 0:
            raise ValueError("no such model: 7")
        return draw(views, snapshot)

    with client() as bridge, contextlib.closing(context.socket(zmq.PUB)) as stranger:
        pump = Pump(bridge)
        facts = bridge.status.facts
        stranger.connect(f"tcp://127.0.0.1:{bridge.image_port}")

        def refused() -> bool:
            if "refusals" not in facts:
                stranger.send_multipart([b'{"frame_id":"one","pub_vehicles":[]}'])
            return {"refusals", "renderer_refused"} <= facts.keys()

        with server(ports(bridge), failing):
            pump.until(refused)
            # What the stranger sent before is read by now.
            pump.frames_reach(len(pump.frames) + 20, 20.0)
        pump.until(lambda: "no renderer has connected" in bridge.status.report().reason)
        before = len(pump.frames)
        with server(ports(bridge)):
            pump.until(
                lambda: (
                    len(pump.frames) > before
                    and not {"refusals", "renderer_refused"} & facts.keys()
                )
            )
    context.destroy(linger=0)


def test_what_our_server_refused_is_in_the_bridges_status() -> None:
    failed = threading.Event()

    def failing(views: tuple[View, ...], snapshot: WorldSnapshot) -> RenderedRequest:
        if not failed.is_set():
            failed.set()
            raise ValueError("no such model: 7")
        return draw(views, snapshot)

    with client() as bridge, server(ports(bridge), failing):
        pump = Pump(bridge)
        pump.views = (view(FRONT),)
        pump.until(lambda: "renderer_refused" in bridge.status.facts)
        assert (
            bridge.status.facts["renderer_refused"]
            == "a message was dropped (failed): no such model: # (1)"
        )
