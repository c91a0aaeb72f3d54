"""What the Flightmare client tells the program, and what it says of what cannot be had."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.flightgoggles import ask, drone, human, pose_at, view
from tests.support.flightmare import (
    FRONT,
    Pump,
    client,
    ports,
    server,
)
from tests.support.flightmare_unity import unity
from vil_bridge.core.errors import RendererError
from vil_bridge.core.types import CameraModel, Modality, TrackingState, View
from vil_bridge.runtime.supervisor import ComponentState
from vil_renderer.flightmare.client import FlightmareClient
from vil_renderer.flightmare.config import FlightmareConfig
from vil_renderer.flightmare.convert import VIEWPOINT

pytestmark = pytest.mark.wire


VIEWS = (view(FRONT), view(FRONT, Modality.DEPTH32))


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
            # Unity's camera: right, up, ahead.
            for column, direction in enumerate((right, -down, ahead)):
                assert matrix[:3, column] == pytest.approx(direction[[0, 2, 1]], abs=1e-9)
            assert matrix[:3, 3] == pytest.approx(T.p_m[[0, 2, 1]], abs=1e-9)
    assert [c["ID"] for c in carriers["drone"]["cameras"]] == ["front"]
    assert [c["ID"] for c in carriers[VIEWPOINT]["cameras"]] == ["wall"]
    assert carriers["drone"]["size"] == carriers["bare"]["size"] == [1, 1, 1]
    assert max(carriers[VIEWPOINT]["size"]) == max(carriers["second"]["size"]) < 0.01, (
        "not to be seen"
    )
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
        assert (
            ids[0, 0] == pump.frames[-1].request.frame_id % 1000
            and ids[-1, -1] - ids[0, 0] == 16 * 8 - 1
        )
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
        assert (
            bridge.status.state is ComponentState.RUNNING
            and bridge.status.counters["unsupported"] == 0
        )
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
        from tests.support.flightmare import draw

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
