"""The bridge's client against Unity's state machine, against our server, and played by hand."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
import zmq

from tests.flightgoggles_support import ask, drone, human, pose_at, view
from tests.flightmare_original import unity
from tests.flightmare_support import (
    FRONT,
    LosesFirst,
    Pump,
    client,
    depth_m,
    is_ready,
    lossy,
    painted,
    ports,
    server,
)
from vil_bridge.core.errors import RendererError
from vil_bridge.core.ports import RendererClient
from vil_bridge.core.supervisor import ComponentState
from vil_bridge.core.types import CameraModel, Modality, TrackingState, View
from vil_renderer.flightmare.client import FlightmareClient
from vil_renderer.flightmare.config import FlightmareConfig
from vil_renderer.flightmare.convert import VIEWPOINT

FRAMES = int(os.environ.get("VIL_SOAK_FRAMES", "300"))
SOAK_TIMEOUT_S = 60.0 + FRAMES / 20
VIEWS = (view(FRONT), view(FRONT, Modality.DEPTH32))


def test_the_client_is_a_renderer_client() -> None:
    with client() as bridge:
        assert isinstance(bridge, RendererClient)


# --- Unity's state machine --------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", ["master", "2022", "agile_autonomy"])
def test_six_settings_messages_open_the_renderer(dialect: str) -> None:
    with client(dialect=dialect, scene_id=3) as bridge, unity(ports(bridge), dialect=dialect) as program:
        pump = Pump(bridge)
        pump.views = (*VIEWS, view(FRONT, Modality.GRAY), view(FRONT, Modality.DEPTH))
        pump.frames_reach(20)
        pump.check_new()
        assert (program.settings_seen, program.readies, program.scene_ids) == (6, 1, [3])
        frame = pump.frames[-1]
        colour, metres, grey, units = (image.pixels for image in frame.images)
        number = frame.request.frame_id
        # Agile-autonomy's far plane is 1000 m away, so that a depth of 100 m is near.
        assert metres[-1, 0] == pytest.approx(depth_m(number), rel=1e-6) and metres[0, 0] == 100.0
        assert units[-1, 0] == round(depth_m(number) * 655.35) and units[0, 0] == 65535
        r, g, b = (int(c) for c in colour[-1, 0])
        assert abs(int(grey[-1, 0]) - (0.299 * r + 0.587 * g + 0.114 * b)) <= 1.0
        report = bridge.status.report()
        assert report.state is ComponentState.RUNNING and report.facts["renderer"] == "original"
        assert report.counters["malformed"] == report.counters["unsupported"] == 0


def test_a_frame_opens_the_renderer_when_ready_is_lost() -> None:
    with client() as bridge, unity(ports(bridge), lost_readies=1) as program:
        pump = Pump(bridge)
        pump.frames_reach(20)
        pump.check_new()
        assert program.readies == 1 and program.drawn[0] == 0, "a late settings message was drawn as frame 0"
        assert bridge.status.counters["foreign"] >= 1, "and that frame was nobody's"
        assert bridge.status.counters["restarts"] == 0


def test_lost_poses_are_asked_again_and_no_picture_is_late() -> None:
    with client(answer_timeout_s=0.1) as bridge, unity(ports(bridge), lost=lambda n: n % 5 in (0, 1)) as program:
        pump = Pump(bridge)
        pump.views = VIEWS
        pump.frames_reach(40)
        pump.check_new()
        counters = bridge.status.counters
        assert counters["unanswered"] + counters["skipped"] >= 10
        assert counters["restarts"] == 0 and program.reloads == 0


def test_keep_alive_holds_the_renderer_while_nobody_asks() -> None:
    with client(keep_alive_s=0.1) as bridge, unity(ports(bridge), timeout_s=0.6) as program:
        pump = Pump(bridge)
        pump.frames_reach(3)
        count, drawn = len(pump.frames), len(program.drawn)
        pump.until(lambda: len(program.drawn) >= drawn + 10, asking=False)
        assert program.reloads == 0 and bridge.status.counters["repeats"] >= 9
        assert len(pump.frames) <= count + 2, "repeated poses are not delivered again"
        pump.frames_reach(count + 5)
        pump.check_new()


def test_after_a_pause_the_renderer_starts_over_and_so_do_we() -> None:
    with client(silence_s=0.3) as bridge, unity(ports(bridge), timeout_s=0.3) as program:
        pump = Pump(bridge)
        pump.frames_reach(5)
        _await(lambda: program.reloads == 1)  # nothing is sent meanwhile
        pump.frames_reach(len(pump.frames) + 10)
        pump.check_new()
        assert program.readies == 2 and program.settings_seen >= 12
        assert bridge.status.counters["restarts"] >= 1


def test_silence_alone_leads_back_to_the_settings() -> None:
    """The line is cut while all sockets stay connected: nobody says that the renderer has started over."""
    cut = threading.Event()

    def lost(_way: str, _parts: Sequence[bytes]) -> bool:
        return cut.is_set()

    with (
        client(silence_s=0.4, answer_timeout_s=0.15) as bridge,
        lossy(ports(bridge), lost) as taken,
        unity(taken, timeout_s=0.4) as program,
    ):
        pump = Pump(bridge)
        pump.frames_reach(5)
        cut.set()
        pump.until(lambda: "no pose for 0.15 s" in bridge.status.report().reason)
        pump.until(lambda: program.reloads >= 1 and bridge.status.counters["restarts"] >= 1)
        assert bridge.status.state is ComponentState.WAITING
        cut.clear()
        pump.frames_reach(len(pump.frames) + 10)
        pump.check_new()
        pump.until(lambda: program.readies >= 2 and bridge.status.state is ComponentState.RUNNING)


def test_other_cameras_wait_until_the_renderer_has_started_over() -> None:
    with client(silence_s=0.3) as bridge, unity(ports(bridge), timeout_s=0.3) as program:
        pump = Pump(bridge)
        pump.frames_reach(5)
        pump.views = (view(FRONT), view(replace(FRONT, name="rear")))
        pump.until(lambda: bool(pump.frames) and len(pump.frames[-1].images) == 2)
        pump.check_new()
        assert program.reloads == 1, "the settings went out before the program could take them"


def test_a_restarted_program_is_opened_again() -> None:
    with client() as bridge:
        pump = Pump(bridge)
        for round_ in range(1, 4):
            with unity(ports(bridge), lost_readies=round_ % 2):
                pump.frames_reach(10 * round_)
            pump.until(lambda: bridge.status.state is ComponentState.WAITING)
            assert not bridge.ready()
        pump.check_new()


def test_a_restarted_client_takes_the_program_over() -> None:
    with client() as first, unity(ports(first), timeout_s=0.3):
        taken = ports(first)
        Pump(first).frames_reach(5)
        first.close()
        with client(pose_port=taken[0], image_port=taken[1]) as second:
            pump = Pump(second, first_id=1000)
            pump.frames_reach(5, timeout_s=10.0)
            pump.check_new()
    assert first.receive() is None and not first.ready()
    first.keep_alive()
    first.close()


@pytest.mark.timeout(SOAK_TIMEOUT_S)
def test_many_frames_through_losses_and_restarts() -> None:
    share = max(FRAMES // 3, 1)
    with client(answer_timeout_s=0.1, silence_s=0.5) as bridge:
        pump = Pump(bridge)
        pump.views = VIEWS
        drawn = 0
        for round_ in range(3):
            with unity(
                ports(bridge), timeout_s=0.5, frame_s=0.0, lost_readies=round_ % 2, lost=lambda n: n % 53 == 1
            ) as program:
                pump.frames_reach((round_ + 1) * share, SOAK_TIMEOUT_S, period_s=0.0005)
                pump.check_new()
                drawn += len(program.drawn)
        assert bridge.status.counters["malformed"] == 0
        assert bridge.status.counters["answered"] == len(pump.frames) <= drawn


# --- what the program is told -----------------------------------------------------------------------


def test_cameras_stand_where_the_bridge_wants_them() -> None:
    """Compared in Unity's world, by the matrices that the program multiplies."""
    mounted, fixed = pose_at(1.2, 2.5, 3.1, 0.4, -0.2, 0.1), pose_at(-4.0, 2.0, 3.8, -1.1, 0.3, 0.2)
    views = (
        view(FRONT, pose=mounted, hide=("drone",)),
        view(replace(FRONT, name="wall"), pose=fixed),
        view(replace(FRONT, name="other"), pose=mounted, hide=("second",)),
    )
    actors = (
        drone("drone", pose_at(1.0, 2.0, 3.0, 2.5, 1.2, -0.7)),
        drone("bare", pose_at(5.0, 0.0, 1.0)),
        drone("second", pose_at(0.0, 9.0, 1.0), TrackingState.LOST),
    )
    with client() as bridge, unity(ports(bridge)) as program:
        pump = Pump(bridge)
        pump.views, pump.actors = views, actors
        pump.frames_reach(3)
        number = pump.frames[-1].request.frame_id
        carriers = {carrier["ID"]: carrier for carrier in program.newest["vehicles"]}
        for wanted in views:
            T = wanted.T_world_camera
            right, down, ahead = (T.rotation() @ axis for axis in np.eye(3))
            matrix = program.cameras[number, wanted.camera.name]
            for column, direction in enumerate((right, -down, ahead)):  # Unity's camera: right, up, ahead
                assert matrix[:3, column] == pytest.approx(direction[[0, 2, 1]], abs=1e-9)
            assert matrix[:3, 3] == pytest.approx(T.p_m[[0, 2, 1]], abs=1e-9)
    assert [c["ID"] for c in carriers["drone"]["cameras"]] == ["front"]
    assert [c["ID"] for c in carriers[VIEWPOINT]["cameras"]] == ["wall"]
    assert carriers["drone"]["size"] == carriers["bare"]["size"] == [1, 1, 1]
    assert max(carriers[VIEWPOINT]["size"]) == max(carriers["second"]["size"]) < 0.01, "not to be seen"
    assert not carriers["bare"]["cameras"]
    middle = program.newest["vehicles"][len(carriers) // 2]
    assert middle["cameras"], "the main vehicle gives the layers their size"


def test_humans_and_props_are_objects_of_a_named_model() -> None:
    with client(bone_prefab="rpg_gate") as bridge, unity(ports(bridge)) as program:
        pump = Pump(bridge)
        pump.actors = (human(0.2, prefab=""), drone("d", pose_at(0, 0, 1)))
        pump.frames_reach(2)
        shown = {thing["ID"]: thing for thing in program.newest["objects"]}
        assert set(shown) == {"human/Hip", "human/Chest", "human/LThigh", "human/LShin"}
        assert {thing["prefabID"] for thing in shown.values()} == {"rpg_gate"}
        assert shown["human/Hip"]["position"][1] > 0.5
        pump.actors = (human(0.2, TrackingState.LOST, prefab=""), drone("d", pose_at(0, 0, 1)))
        pump.until(lambda: program.newest["objects"][0]["position"][1] == -1000.0)
        assert len(program.newest["objects"]) == 4, "what was sent once is sent for ever"


def test_actors_without_a_model_are_named() -> None:
    with client() as bridge, unity(ports(bridge)) as program:
        pump = Pump(bridge)
        pump.actors = (human(0.2, prefab=""),)
        pump.frames_reach(1)
        assert program.newest["objects"] == []
        assert bridge.status.facts["without_prefab"] == ["human"]


def test_collisions_are_those_of_the_carrier() -> None:
    with client() as bridge, unity(ports(bridge)):  # it reports what has a collision check
        pump = Pump(bridge)
        pump.views = (view(FRONT, hide=("d",)),)
        pump.actors = (drone("d", pose_at(0, 0, 1)),)
        pump.frames_reach(1)
        assert pump.frames[-1].collision
        pump.views = tuple(replace(v, collision=False) for v in pump.views)
        count = len(pump.frames)
        pump.frames_reach(count + 4)
        assert not pump.frames[-1].collision, "nobody asked"


# --- what cannot be had -----------------------------------------------------------------------------


def test_what_flightmare_cannot_draw_is_left_out_and_said() -> None:
    lens = replace(FRONT, name="lens", pinhole_px=(10.0, 10.0, 7.0, 3.0))
    small = CameraModel("small", 12, 10, 1.0)
    cases: list[tuple[View, str]] = [
        (view(FRONT, Modality.NORMALS), "no such modality"),
        (view(lens), "ideal pinholes only"),
        (view(FRONT, Modality.INSTANCE), "no instance ids"),
        (view(small, Modality.DEPTH), "layers come in 16x8"),
    ]
    with client() as bridge, unity(ports(bridge)):
        pump = Pump(bridge)
        pump.views = (view(FRONT), *(case for case, _ in cases))
        pump.until(lambda: bridge.status.counters["unsupported"] >= len(cases))
        assert [image.view.key for image in pump.frames[0].images] == ["front"]
        assert bridge.status.state is ComponentState.RUNNING
    for unable, why in cases:
        with client() as bridge, unity(ports(bridge)):
            pump = Pump(bridge)
            pump.views = (unable,) if unable.camera is not small else (view(FRONT), unable)
            pump.until(lambda: "left_out" in bridge.status.facts)
            assert why in bridge.status.facts["left_out"]


def test_our_own_server_gives_instances() -> None:
    with client() as bridge, server(ports(bridge)) as counters:
        pump = Pump(bridge)
        pump.views = (*VIEWS, view(FRONT, Modality.INSTANCE))
        pump.frames_reach(20)
        pump.check_new()
        ids = pump.frames[-1].images[2].pixels
        assert ids.dtype == np.uint16
        assert ids[0, 0] == pump.frames[-1].request.frame_id % 1000 and ids[-1, -1] - ids[0, 0] == 16 * 8 - 1
        assert bridge.status.facts["renderer"] == "painter" and (pump.frames[-1].render_ns or 0) > 0
        assert counters["malformed"] == counters["failed"] == 0


def test_a_camera_that_is_not_due_is_left_out_without_a_word() -> None:
    with client() as bridge, unity(ports(bridge)):
        pump = Pump(bridge)
        idle = replace(view(FRONT, Modality.NORMALS), due=False)
        pump.views = (view(FRONT), idle)
        pump.frames_reach(3)
        pump.views = (replace(view(FRONT), due=False), idle)  # asks only whether the renderer works
        pump.frames_reach(8)
        assert [len(frame.images) for frame in pump.frames[-3:]] == [0, 0, 0]
        assert bridge.status.state is ComponentState.RUNNING and bridge.status.counters["unsupported"] == 0
        assert pump.frames[-1].render_ns is None


def test_our_own_server_takes_other_cameras_at_once() -> None:
    with client(silence_s=30.0) as bridge, server(ports(bridge)):
        pump = Pump(bridge)
        pump.frames_reach(5)
        pump.views = (view(FRONT), view(replace(FRONT, name="rear")))
        pump.until(lambda: len(pump.frames[-1].images) == 2)
        pump.check_new()


def test_status_says_what_is_missing() -> None:
    with client() as bridge:
        report = bridge.status.report()
        given = f"-input-port {bridge.pose_port} -output-port {bridge.image_port}"
        assert report.state is ComponentState.WAITING
        assert f"--protocol flightmare -{given.replace(' -', ' --')}`" in report.reason
        assert f"program with -client-ip <this host> {given}" in report.reason
        bridge.request(ask(1))
        assert bridge.status.report().counters["refused"] == 1
        with unity(ports(bridge), steps=1000):
            Pump(bridge).until(lambda: "nothing has come back yet" in bridge.status.report().reason)
        Pump(bridge).until(lambda: "no renderer" in bridge.status.report().reason)


def test_what_cannot_be_sent_is_refused_and_the_next_one_goes_out() -> None:
    with client() as bridge, server(ports(bridge)) as counters:
        pump = Pump(bridge)
        pump.frames_reach(1)
        pump.until(bridge.ready, asking=False)
        nan = replace(VIEWS[0].T_world_camera, p_m=np.array([0.0, np.nan, 0.0]))
        bridge.request(ask(10**6, [replace(VIEWS[0], T_world_camera=nan)]))
        bridge.request(ask(2**62))
        bridge.request(ask(0))
        bridge.request(ask(10**6 + 1, [view(CameraModel("wide", 2000, 1400, 1.0))]))
        assert bridge.status.counters["refused"] == 4
        assert "'wide' exceed max_picture_mib" in bridge.status.facts["refused"]
        pump.next_id = 10**7
        pump.frames_reach(5)
        assert counters["malformed"] == 0


def test_pictures_of_one_colour_are_named() -> None:
    def dark(views: tuple[View, ...], snapshot: object) -> object:
        from tests.flightmare_support import draw

        drawn = draw(views, snapshot)  # type: ignore[arg-type]
        return replace(drawn, images=tuple(replace(i, pixels=i.pixels * 0) for i in drawn.images))

    with client(scene_id=4) as bridge, server(ports(bridge), dark):
        pump = Pump(bridge)
        pump.frames_reach(3)
        report = bridge.status.report()
        assert report.state is ComponentState.WAITING and "scene 4 loaded" in report.reason
        assert report.counters["blank"] >= 3, "they are delivered all the same"


def test_a_taken_port_is_an_error_that_names_it() -> None:
    with client() as bridge, pytest.raises(RendererError, match=str(bridge.pose_port)):
        FlightmareClient("second", FlightmareConfig(pose_port=bridge.pose_port))


# --- played by hand ---------------------------------------------------------------------------------


@contextlib.contextmanager
def by_hand(of: FlightmareClient) -> Iterator[tuple[zmq.Socket[bytes], zmq.Socket[bytes]]]:
    """A renderer's two sockets."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    try:
        poses, images = context.socket(zmq.SUB), context.socket(zmq.PUB)
        for each, port in ((poses, of.pose_port), (images, of.image_port)):
            each.linger = 0
            each.connect(f"tcp://127.0.0.1:{port}")
        poses.subscribe(b"Pose")
        yield poses, images
    finally:
        context.destroy(linger=0)


def frame_of(number: int, pixels: bytes | None = None) -> list[bytes]:
    header = {"frame_id": number, "pub_vehicles": [{"collision": False, "lidar_ranges": []}]}
    return [json.dumps(header).encode(), painted(number, "front", 16, 8)[::-1].tobytes() if pixels is None else pixels]


def test_only_frames_that_somebody_waits_for_are_taken() -> None:
    with client() as bridge, by_hand(bridge) as (poses, images):
        pump = Pump(bridge)
        pump.views = (view(FRONT),)
        pump.until(lambda: poses.poll(0) > 0)
        # A frame without a number of ours opens; it is repeated, since the first ones meet no subscription.
        while "dialect" not in bridge.status.facts:
            images.send_multipart(frame_of(0))
            pump.until(lambda: bridge.receive() is None, asking=False)
            threading.Event().wait(0.005)
        asked: list[int] = []

        def two_are_out() -> bool:
            while poses.poll(0):
                message = json.loads(poses.recv_multipart()[1])
                asked.extend([message["frame_id"]] if "frame_id" in message else [])
            return len(asked) == 2

        pump.until(two_are_out)
        assert not bridge.ready() and bridge.in_flight == 2
        before = bridge.status.counters["foreign"]
        late = [0, 7777777, asked[1], asked[0], asked[1]]
        for number in late:
            images.send_multipart(frame_of(number))
        pump.until(lambda: bridge.status.counters["foreign"] == before + 4, asking=False)
        assert [frame.request.frame_id for frame in pump.frames] == [asked[1]]
        assert bridge.status.counters["skipped"] == 1
        pump.check_new()


def test_rubbish_is_counted_and_skipped() -> None:
    with client(answer_timeout_s=60.0) as bridge, by_hand(bridge) as (poses, images):
        pump = Pump(bridge)
        pump.views = (view(FRONT),)
        pump.until(lambda: poses.poll(0) > 0)
        while "dialect" not in bridge.status.facts:
            images.send_multipart([b'{"ready":true}'])
            pump.until(lambda: bridge.receive() is None, asking=False)
            threading.Event().wait(0.005)
        rubbish = [
            [b"\xff" * 40],
            [b"{}" * 8],
            [b'{"ready":true}', b""],
            [b'{"ready":"yes"}'],
            [b'{"frame_id":1.5,"pub_vehicles":[]}'],
            [b'{"frame_id":18446744073709551615,"pub_vehicles":[]}'],
            [b""],
            [b"CollisionState", b"nothing"],
        ]
        for parts in rubbish:
            images.send_multipart(parts)
        counters = bridge.status.counters
        pump.until(lambda: counters["malformed"] == len(rubbish))
        bad = [[], [b"short"], [painted(1, "front", 16, 8).tobytes()] * 2]
        for extra in bad:
            pump.until(lambda: bridge.in_flight > 0)
            number = _newest_asked(poses, pump)
            images.send_multipart([frame_of(number)[0], *extra])
            pump.until(lambda: bridge.in_flight == 0, asking=False)
        assert counters["malformed"] == len(rubbish) + len(bad)
        assert not pump.frames


def _newest_asked(poses: zmq.Socket[bytes], pump: Pump) -> int:
    found: list[int] = []

    def drained() -> bool:
        while poses.poll(0):
            message = json.loads(poses.recv_multipart()[1])
            found.extend([message["frame_id"]] if "frame_id" in message else [])
        return bool(found) and found[-1] == pump.next_id - 1

    pump.until(drained, asking=False)
    return found[-1]


def test_the_first_ready_of_our_server_may_be_lost() -> None:
    with client() as bridge, lossy(ports(bridge), LosesFirst(2, is_ready)) as taken, server(taken) as counters:
        pump = Pump(bridge)
        pump.frames_reach(5)
        pump.check_new()
        assert counters["ready"] >= 3
        assert bridge.status.counters["foreign"] == 0, "no settings message got a frame"


def _await(condition: object, limit_s: float = 10.0) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline
        threading.Event().wait(0.005)
