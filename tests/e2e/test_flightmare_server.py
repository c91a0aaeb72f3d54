"""Our server against the original client, as strict as it is, in every dialect."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tests.support.common import PATIENCE_S, wait_until
from tests.support.flightmare import (
    LosesFirst,
    depth_m,
    draw,
    is_ready,
    lossy,
    number_in,
    server,
)
from tests.support.flightmare_exchange import NAME, ROOMY, exchange
from tests.support.flightmare_original import DIALECTS, UNTURNED, DeadlockError, OldClient
from vil_bridge.core.errors import RendererError
from vil_bridge.core.types import ActorKind, FloatArray, RenderedImage, View, WorldSnapshot
from vil_renderer.flightmare.convert_renderer import Fan
from vil_renderer.flightmare.messages import EventCameraMessage, EventMessage
from vil_renderer.flightmare.server import RenderedRequest, Senses

pytestmark = pytest.mark.wire


FRAMES = int(os.environ.get("VIL_SOAK_FRAMES", "300"))
SOAK_TIMEOUT_S = 900.0 + FRAMES / 20
ALL_LAYERS = (True, True, True)


# --- the exchange ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.timeout(SOAK_TIMEOUT_S)
def test_every_dialect_is_served(dialect: str) -> None:
    with OldClient(dialect, cameras=2, layers=ALL_LAYERS) as old, server(old.taken) as counters:
        old.connect()
        exchange(old, range(1, max(FRAMES // 5, 20)))
        number = 2**60 + 7
        pictures = exchange(old, range(number, number + 1))
        assert number_in(pictures[4], "quadrotor0_1") == number
        far_m = 1000.0 if dialect == "agile_autonomy" else 100.0
        depth = pictures[1] * np.float32(far_m)
        assert depth[-1, 0] == pytest.approx(depth_m(number), rel=1e-6)
        assert (pictures[1][0] == 1.0).all(), "nothing was hit there"
        first = number % 1000
        assert pictures[2][0, 0].tolist() == colour_by_the_book(first)
        assert pictures[2][1, 3].tolist() == colour_by_the_book(first + 16 + 3)
        assert (pictures[3] == [128, 0, 0]).all(), (
            "half a picture to the right: red of half the brightness"
        )
        assert counters["malformed"] == counters["failed"] == counters["superseded"] == 0


def colour_by_the_book(instance: int) -> list[int]:
    """The formula of the protocol, bit by bit."""

    def spread(byte: int) -> int:
        return sum(((byte >> bit) & 1) << (3 * (7 - bit)) for bit in range(8))

    u = 2 * instance
    s = spread(u >> 16 & 255) << 2 | spread(u >> 8 & 255) << 1 | spread(u & 255)
    return [s >> 8 & 255, s >> 16 & 255, s & 255]


@pytest.mark.parametrize("dialect", ["master", "2022"])
def test_a_lost_ready_is_repeated_but_seldom(dialect: str) -> None:
    with (
        OldClient(dialect) as old,
        lossy(old.taken, LosesFirst(2, is_ready)) as taken,
        server(taken) as counters,
    ):
        begun = time.monotonic()
        sent = old.connect()
        took_s = time.monotonic() - begun
        assert 3 <= counters["ready"] <= took_s / 0.25 + 1 < sent
        exchange(old, range(1, 20))
        assert counters["answered"] <= 19, "no settings message got a frame"


def test_who_starts_first_does_not_matter() -> None:
    with OldClient("master") as old:
        connecting = threading.Thread(target=old.connect)
        connecting.start()
        with server(old.taken):
            connecting.join(60.0)
            exchange(old, range(1, 10))


def test_a_restarted_client_is_served_again() -> None:
    with OldClient("master", layers=(False,) * 3) as old, server(old.taken) as counters:
        old.connect()
        exchange(old, range(1, 10))
        old.close()
        with OldClient("agile_autonomy", cameras=2, taken=old.taken) as other:
            other.connect()
            exchange(other, range(1, 10))
        assert counters["malformed"] == counters["failed"] == 0


def test_a_restarted_server_goes_on_with_the_poses() -> None:
    """The original client never sends settings again; every pose describes all."""
    with OldClient("master", cameras=2) as old:
        with server(old.taken):
            old.connect()
            exchange(old, range(1, 10))
        with server(old.taken):
            # A server draws no pose twice, and what it says before it is heard is lost.
            asked = itertools.count(10)

            def heard() -> bool:
                number = next(asked)
                old.render(number)
                return any(
                    old.handle_output()[0] == number for _ in iter(lambda: old._sub.poll(50), 0)
                )

            wait_until(heard)  # until the server has connected
            exchange(old, range(1000, 1010))


def test_an_old_client_is_given_a_millisecond() -> None:
    with OldClient("master", layers=(False,) * 3) as old, server(old.taken):
        old.connect()
        begun = time.monotonic()
        exchange(old, range(1, 201))
        assert time.monotonic() - begun >= 0.199


def test_one_frame_for_each_number_but_always_one_for_zero() -> None:
    with OldClient("master", hwm=ROOMY) as old, server(old.taken) as counters:
        old.connect()
        for _ in range(20):  # documented examples ask for frame 0 for ever
            old.frame(0, move=False)
        exchange(old, range(1, 3))
        old.render(2)
        wait_until(lambda: counters["repeated"] == 1)
        exchange(old, range(3, 5))
        old.connect()  # a new life counts from the start
        exchange(old, range(4, 6))


def test_only_the_newest_pose_is_drawn() -> None:
    busy, go_on = threading.Event(), threading.Event()
    seen: list[int] = []

    def blocking(views: tuple[View, ...], snapshot: WorldSnapshot) -> RenderedRequest:
        seen.append(snapshot.t_ns)
        busy.set()
        go_on.wait(PATIENCE_S)
        return draw(views, snapshot)

    with OldClient("master", hwm=ROOMY) as old, server(old.taken, blocking) as counters:
        old.connect()
        old.render(1)
        assert busy.wait(60.0)
        for number in range(2, 6):
            old.render(number)
        assert not old._sub.poll(200), "the frame before is still being drawn"
        go_on.set()
        assert [old.handle_output()[0] for _ in range(2)] == [1, 5]
        assert seen == [1, 5] and counters["superseded"] == 3


@pytest.mark.timeout(SOAK_TIMEOUT_S)
def test_many_frames_with_lost_messages_and_a_restart() -> None:
    """The 2022 client compares numbers and asks again.

    Ready gets lost, and every 60th pose or frame.
    """
    count = itertools.count(1)

    def lost(way: str, parts: Any) -> bool:
        if is_ready(way, parts):
            return next(count) % 2 == 1
        return b"frame_id" in parts[-1 if way == "pose" else 0] and next(count) % 60 == 0

    first = OldClient("2022")
    with first, lossy(first.taken, lost) as taken, server(taken) as counters:
        asked = live(first, FRAMES // 2)
        first.close()
        with OldClient("2022", taken=first.taken) as second:
            asked += live(second, FRAMES // 2)
        assert asked > FRAMES // 2 * 2, "some were asked again"
        assert counters["malformed"] == counters["failed"] == counters["repeated"] == 0


def live(old: OldClient, frames: int) -> int:
    """Connect and get so many frames, each of the pose just sent; how often one was asked for."""
    old.connect()
    number = 0
    for _ in range(frames):
        while True:
            number += 1
            old.render(number)
            with contextlib.suppress(DeadlockError):
                got, pictures = old.handle_output(0.1)
                # Was lost for a while only.
                while got < number and number_in(pictures[0], NAME) == got:
                    got, pictures = old.handle_output(0.1)
                assert got == number == number_in(pictures[0], NAME)
                break
    return number


# --- what is in a frame ---------------------------------------------------------------------------


def test_layers_have_the_size_of_the_main_vehicles_first_camera() -> None:
    with OldClient("master", cameras=2, layers=ALL_LAYERS, hwm=ROOMY) as old, server(old.taken):
        old.vehicles[0]["cameras"][1] |= {"width": 24, "height": 10}
        old.connect()
        old.render(3)
        assert old._sub.poll(60_000)
        parts = old._sub.recv_multipart()
    sizes = [len(part) for part in parts[1:]]
    layers = [16 * 8 * 4, 16 * 8 * 3, 16 * 8 * 3]
    assert sizes == [16 * 8 * 3, *layers, 24 * 10 * 3, *layers]


def test_without_a_camera_the_frame_is_its_first_part() -> None:
    with OldClient("master", cameras=0) as old, server(old.taken):
        old.connect()
        assert old.frame(1) == []


def test_views_and_actors_are_what_the_client_described() -> None:
    seen: list[tuple[tuple[View, ...], WorldSnapshot]] = []

    def spying(views: tuple[View, ...], snapshot: WorldSnapshot) -> RenderedRequest:
        seen.append((views, snapshot))
        return draw(views, snapshot)

    with OldClient("2022") as old, server(old.taken, spying):
        old.vehicles.append(old.vehicles[0] | {"ID": "tiny", "size": [1e-3] * 3, "cameras": []})
        make = old.settings
        old.settings = lambda: make() | {"render_offset": [10.0, 0.0, 20.0]}  # type: ignore[method-assign]
        old.connect()
        old.vehicles[0]["position"] = [1.0, 3.0, 2.0]
        old.vehicles[0]["rotation"] = [0.0, -np.sin(0.3), 0.0, np.cos(0.3)]
        old.frame(7, move=False)
    views, snapshot = seen[-1]
    assert snapshot.t_ns == 7
    drone, gate = snapshot.actors
    assert (drone.name, drone.kind, gate.name, gate.kind) == (
        "quadrotor0",
        ActorKind.VEHICLE,
        "gate",
        ActorKind.PROP,
    )
    assert drone.T_world_body.p_m.tolist() == [11.0, 22.0, 3.0], "z up, moved by the offset"
    assert drone.T_world_body.q_xyzw == pytest.approx([0.0, 0.0, np.sin(0.3), np.cos(0.3)])
    assert gate.prefab == "rpg_gate" and gate.T_world_body.p_m.tolist() == [13.0, 21.0, 0.5]
    # At (0.1, 0.2, 0.3) on the body and turned by -90 degrees: it looks along the body's x.
    assert views[0].hide == ("quadrotor0",)
    camera = views[0].T_world_camera
    forward = [np.cos(0.6), np.sin(0.6), 0.0]
    assert camera.rotation() @ [0, 0, 1] == pytest.approx(forward)
    assert camera.rotation() @ [0, 1, 0] == pytest.approx([0, 0, -1])
    assert camera.p_m == pytest.approx(drone.T_world_body.apply(np.array([0.1, 0.2, 0.3])))
    assert np.degrees(views[0].camera.fov_y_rad) == pytest.approx(70.0)


def test_lidar_and_collision_are_told_for_each_vehicle() -> None:
    fans: list[Fan] = []

    def ranges(fan: Fan, _snapshot: WorldSnapshot) -> FloatArray:
        fans.append(fan)
        return np.array([1.5, 2.5, fan.limit_m + 1.0])

    senses = Senses(ranges=ranges, collides=lambda name, _snapshot: name != "other")
    with OldClient("agile_autonomy") as old, server(old.taken, senses=senses):
        place = [*UNTURNED[:3], 0.5, *UNTURNED[4:]]
        old.vehicles[0]["lidars"][0]["T_BS"] = place
        old.vehicles += [
            old.vehicles[0] | {"ID": "other", "cameras": [], "lidars": []},
            old.vehicles[0]
            | {"ID": "deaf", "cameras": [], "lidars": [], "hasCollisionCheck": False},
        ]
        old.connect()
        exchange(old, range(1, 3))
    assert old.states == [
        {"collision": True, "lidar_ranges": [1.5, 2.5, 11.0]},
        {"collision": False, "lidar_ranges": []},
        {"collision": False, "lidar_ranges": []},
    ]
    fan = fans[-1]
    assert (fan.vehicle, fan.start_rad, fan.end_rad, fan.beams, fan.limit_m) == (
        "quadrotor0",
        -0.5,
        0.5,
        3,
        10.0,
    )
    assert fan.T_world_sensor.p_m == pytest.approx([0.02 + 0.5, 0.0, 1.0])


def test_events_come_with_their_camera() -> None:
    asked: list[EventCameraMessage] = []

    def events(
        image: RenderedImage, camera: EventCameraMessage, snapshot: WorldSnapshot
    ) -> list[EventMessage]:
        assert image.view.camera.name == "quadrotor0_event_0"
        asked.append(camera)
        return [EventMessage(coord_x=3, coord_y=2, polarity=-1, time=float(snapshot.t_ns))]

    with OldClient("event_camera") as old, server(old.taken, senses=Senses(events=events)):
        old.connect()
        pictures = exchange(old, range(1, 4))
        assert number_in(pictures[2], "quadrotor0_event_0") == 3
        assert pictures[3] == [{"coord_x": 3, "coord_y": 2, "polarity": -1, "time": 3.0}]
        assert asked[-1].Cp == 0.1 and asked[-1].log_eps == 1e-4
        old.frame(9, topic="Event")


def test_the_scene_of_the_settings_is_loaded_once() -> None:
    loaded: list[str] = []
    with OldClient("master") as old, server(old.taken, senses=Senses(load_scene=loaded.append)):
        make, scene = old.settings, {"scene_id": 1}
        old.settings = lambda: make() | scene  # type: ignore[method-assign]
        old.connect()
        exchange(old, range(1, 5))
        assert loaded == ["hall"]
        scene["scene_id"] = 3
        old.connect()
        exchange(old, range(5, 9))
        assert loaded == ["hall", "yard"]


# --- rubbish --------------------------------------------------------------------------------------


@contextlib.contextmanager
def talking(old: OldClient) -> Iterator[Callable[[list[bytes]], object]]:
    yield lambda parts: old._pub.send_multipart(parts)


def test_rubbish_does_not_stop_the_renderer() -> None:
    def picky(views: tuple[View, ...], snapshot: WorldSnapshot) -> RenderedRequest:
        if snapshot.t_ns == 13:
            raise RendererError("unlucky")
        if snapshot.t_ns == 14:
            return RenderedRequest(())
        return draw(views, snapshot)

    with (
        OldClient("master", hwm=ROOMY) as old,
        server(old.taken, picky) as counters,
        talking(old) as say,
    ):
        old.connect()
        exchange(old, range(1, 3))
        body = json.dumps(old.pose(5)).encode()
        rubbish = [
            [b"Pose"],
            [b"Pose", b""],
            [b"Pose", b"\xff" * 90],
            [b"Pose", body[:-1]],
            [b"Pose", body, body],
            [b"Poser", body],
            [
                b"Pose",
                body.replace(b'"position": [', b'"position": [1e300, 0.0, 0.0], "was": [', 1),
            ],
            [b"Pose", body.replace(b'"width": 16', b'"width": 8193')],
            [b"Pose", b'{"frame_id":3,"vehicles":[],"objects":[]}'],
            [b"PointCloud", b'{"range":[1,2]}'],
            [b"CollisionCheck", b'{"checked_point":"here"}'],
        ]
        for count, parts in enumerate(rubbish, 1):
            say(parts)
            wait_until(lambda count=count: counters["malformed"] == count)  # type: ignore[misc]
        for number in (13, 14):
            old.render(number)
            wait_until(
                lambda number=number: counters["failed"] == number - 12,  # type: ignore[misc]
            )
        exchange(old, range(15, 20))


def test_pictures_beyond_all_measure_are_refused() -> None:
    with OldClient("master", cameras=8, layers=ALL_LAYERS) as old, server(old.taken) as counters:
        for camera in old.vehicles[0]["cameras"]:
            camera |= {"width": 4096, "height": 4096}
        old.send("Pose", old.pose(1))

        def refused() -> bool:
            old.send("Pose", old.pose(1))
            return counters["malformed"] >= 1

        wait_until(refused)
        assert counters["answered"] == 0
