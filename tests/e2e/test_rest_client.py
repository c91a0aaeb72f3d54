"""The typed client against a running bridge.

Every operation, values of the right types, errors that say why.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import httpx
import pytest
import simplejpeg

from tests.support.bridge_rig import build
from tests.support.common import PATIENCE_S, ROOT
from tests.support.dashboard_rig import PERSON, film, seat
from tests.support.events import until
from tests.support.programs import output
from vil_bridge.daemon.bridge import Bridge
from vil_bridge.monitoring.event_log import EventLevel, EventView
from vil_bridge.monitoring.snapshot import BridgeSnapshot
from vil_bridge.runtime.access_tokens import Role
from vil_bridge.web.auth.access import needed_role
from vil_bridge.web.client import (
    BridgeApi,
    BridgeUnreachable,
    NoSuchThing,
    PreviewRequest,
    RequestRejected,
    RestError,
)
from vil_bridge.web.live.codec import LivePoses, LivePreview
from vil_bridge.web.openapi import EXAMPLES
from vil_bridge.web.schemas.controls import MountView, PropBody
from vil_bridge.web.schemas.lighting import LightingBody, LightingPatch
from vil_bridge.web.schemas.vehicles import CommandBody, DisturbanceBody

pytestmark = pytest.mark.wire


OPENAPI = ROOT / "docs" / "reference" / "openapi.json"
_OF_SERVICES = ("put_flight", "put_race", "start_recording", "start_replay")
"""Operations whose routes have an example of the body."""


@pytest.mark.process
def test_the_description_is_that_of_the_code(tmp_path: Path) -> None:
    output(sys.executable, "scripts/openapi.py", tmp_path / "now.json", limit_s=100)
    now, kept = (json.loads(path.read_text()) for path in (tmp_path / "now.json", OPENAPI))
    assert now == kept, "the REST interface changed: `make openapi`, and say so in CHANGELOG.md"


def test_applications_that_share_their_schemas_have_that_description() -> None:
    described = []
    for _ in range(2):
        one = build('version: 1\nhttp: {port: 0}\nstream: {bind: "tcp://127.0.0.1:0"}\n')
        one.http.stop()
        described.append(json.loads(json.dumps(one.build_web().openapi())))
    assert described == 2 * [json.loads(OPENAPI.read_text())]


def test_every_operation_has_a_method_and_says_what_may_go_wrong() -> None:
    for path, methods in json.loads(OPENAPI.read_text())["paths"].items():
        for operation in methods.values():
            name = operation["operationId"]
            assert callable(getattr(BridgeApi, name, None)), f"BridgeApi lacks {name} ({path})"
            assert operation.get("description") or "by_name" in name or path.count("/") == 3, name
            assert {"401", "403", "422", "429", "503"} <= set(operation["responses"]), name
            assert "404" in operation["responses"] or "{" not in path, name
            refusals = [
                answer
                for status, answer in operation["responses"].items()
                if not status.startswith("2")
            ]
            assert {kind for answer in refusals for kind in answer["content"]} == {
                "application/json"
            }, name


def test_every_operation_names_its_role_and_every_body_has_an_example() -> None:
    described = json.loads(OPENAPI.read_text())
    assert set(described["components"]["securitySchemes"]) == {"token", "login"}
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            role = needed_role("http", method.upper(), path)
            assert operation["security"] == (
                [] if role is Role.NONE else [{"token": [role]}, {"login": [role]}]
            ), path
            assert all(
                "example" in p for p in operation.get("parameters", ()) if p["in"] == "path"
            ), path
            if body := operation.get("requestBody"):
                example = body["content"]["application/json"]["example"]
                assert example == EXAMPLES.get(operation["operationId"], example)


async def test_the_examples_are_understood_and_probes_answer_head(tmp_path: Path) -> None:
    async with seat(tmp_path) as bridge:
        await asyncio.to_thread(_send_examples, bridge.http.url)


def _send_examples(url: str) -> None:
    understood = set()
    with httpx.Client(base_url=url, timeout=60.0) as web:
        described = web.get("api/v1/openapi.json").json()
        for path, methods in described["paths"].items():
            for method, operation in methods.items():
                if body := operation.get("requestBody"):
                    names = (
                        {p["name"]: p["example"] for p in operation["parameters"]}
                        if "{" in path
                        else {}
                    )
                    example = body["content"]["application/json"]["example"]
                    answer = web.request(method, path.format(**names), json=example)
                    # What a real bridge has not: its own tokens, a simulated vehicle, that
                    # recording.
                    assert answer.status_code in {200, 404, 409}, (path, answer.text)
                    understood.add(operation["operationId"])
        assert understood == {*EXAMPLES, *_OF_SERVICES}
        for probe in ("healthz", "readyz", "metrics"):
            asked, head = web.get(probe), web.head(probe)
            assert (head.status_code, head.content) == (asked.status_code, b""), probe
            assert head.headers["content-type"] == asked.headers["content-type"]


async def test_state_and_scene(tmp_path: Path) -> None:
    async with seat(tmp_path) as bridge:
        film(bridge, 1, (0.5, 0.0, 1.0))
        await until(lambda: bridge.context.cameras["front"].relay.newest is not None)
        await asyncio.to_thread(_read_everything, bridge)


def _read_everything(bridge: Bridge) -> None:
    api = BridgeApi(bridge.http.url, timeout_s=PATIENCE_S)
    status = api.get_status()
    assert isinstance(status, BridgeSnapshot)
    assert status.cameras["front"].latency["request_to_image"].histogram.edges_s[-1] == float("inf")
    for section in ("sources", "actors", "renderers", "cameras", "streams", "outputs", "latency"):
        members = getattr(api, f"get_{section}")()
        assert set(members) == set(getattr(status, section, status.cameras))
        for name, member in members.items():
            assert type(getattr(api, f"get_{section}_by_name")(name)) is type(member)
    assert simplejpeg.decode_jpeg(api.get_preview("front")).shape == (48, 64, 3)
    assert api.get_ledger("front", last=5).head.camera == "front"
    assert api.get_health().status == "ok"
    assert api.get_ready().not_ready_because == status.not_ready_because
    assert "vil_build_info" in api.get_metrics()
    assert str(api.get_whoami().role) == "control"
    assert api.get_vehicles() == []
    assert api.get_config()["cameras"]["front"]["width_px"] == 64
    scene = api.get_scene()
    assert [(a.name, a.kind, a.room) for a in scene.actors] == [
        ("drone", "vehicle", "flight"),
        ("person", "human", "stage"),
        ("unseen", "prop", "flight"),
    ]
    assert scene.actors[1].skeleton is not None
    assert (scene.actors[1].skeleton.bones, scene.actors[1].skeleton.parents) == (
        PERSON.bones,
        PERSON.parents,
    )
    assert scene.rooms["stage"].q_xyzw == pytest.approx((0.0, 0.0, 0.5**0.5, 0.5**0.5))
    assert (scene.rooms["stage"].walls, scene.rooms["stage"].margin_m) == (None, 0.25)
    assert scene.rooms["flight"].walls is not None
    assert scene.rooms["flight"].walls.max_m == (3.0, 2.0, 3.0)
    front, plain = scene.cameras
    assert (front.p_m, front.variants, plain.variants) == (
        (1.0, 2.0, 3.0),
        ("compensated", "raw"),
        ("raw",),
    )
    assert front.fov_y_rad == pytest.approx(1.2217, abs=1e-4)


async def test_changes_and_refusals(tmp_path: Path) -> None:
    async with seat(tmp_path) as bridge:
        await asyncio.to_thread(_change_everything, bridge)


def _change_everything(bridge: Bridge) -> None:
    api = BridgeApi(bridge.http.url, timeout_s=PATIENCE_S)
    revision = api.get_scene().revision
    mount = MountView((0.1, 0.0, 0.2), (0.0, 0.0, 0.6, 0.8))
    moved = api.put_mount("front", mount)
    assert moved.p_m == pytest.approx(mount.p_m)
    assert moved.q_xyzw == pytest.approx(mount.q_xyzw)
    assert api.get_mount("front") == moved
    assert bridge.context.cameras["front"].camera.T_body_camera.p_m.tolist() == pytest.approx(
        list(mount.p_m)
    )
    box = PropBody(p_m=(1.0, 1.0, 0.5), size_m=(1.0, 0.5, 1.0))
    assert api.put_prop("box", box).q_xyzw == (0.0, 0.0, 0.0, 1.0)
    assert list(api.get_props()) == ["box"]
    scene = api.get_scene()
    assert scene.revision > revision
    assert (scene.props[0].name, scene.props[0].size_m) == ("box", (1.0, 0.5, 1.0))
    api.delete_prop("box")
    assert api.put_faults("mocap", "loss=5%").faults == "loss=5%"
    assert api.get_faults("mocap").faults == "loss=5%"
    assert api.put_faults("mocap", "").faults == ""
    assert api.put_lighting(LightingBody(time_of_day_h=20.0)).time_of_day_h == 20.0
    assert (
        api.patch_lighting(LightingPatch(time_of_day_h=None))
        == api.get_lighting()
        == LightingBody()
    )
    assert api.get_lamps().listed is False
    assert api.get_simulation().clock == "real"
    _refusals(api)


def _refusals(api: BridgeApi) -> None:
    lost = MountView((0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0))
    with pytest.raises(NoSuchThing, match="nothing named 'rear' in cameras; known: front, plain"):
        api.put_mount("rear", lost)
    with pytest.raises(NoSuchThing, match="known: mocap, second"):
        api.get_faults("laser")
    with pytest.raises(NoSuchThing, match="nothing named 'box' in props; known: none"):
        api.delete_prop("box")
    with pytest.raises(NoSuchThing, match="api/v1/recordings"):
        api.start_replay("nothing")
    with pytest.raises(NoSuchThing, match="no simulated vehicle"):
        api.command_vehicle("drone", CommandBody(action="arm"))
    with pytest.raises(NoSuchThing, match="no simulated vehicle"):
        api.disturb_vehicle("drone", DisturbanceBody(wind_world_mps=(5.0, 0.0, 0.0)))
    with pytest.raises(RequestRejected, match="loss") as wrong:
        api.put_faults("mocap", "los=5%")
    assert wrong.value.status == 422
    with pytest.raises(RequestRejected, match="an actor is named 'drone'") as taken:
        api.put_prop("drone", PropBody(p_m=(0, 0, 0), size_m=(1, 1, 1)))
    assert taken.value.status == 409
    with pytest.raises(RequestRejected, match="a quaternion of length 1") as wrong:
        api.put_mount("front", MountView((0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0)))
    assert wrong.value.status == 422
    with pytest.raises(RequestRejected, match="a quaternion of length 1") as wrong:
        api.put_prop("box", PropBody(p_m=(0, 0, 0), q_xyzw=(0, 0, 0, 0), size_m=(1, 1, 1)))
    assert wrong.value.status == 422
    with pytest.raises(RequestRejected, match="not started from a file"):
        api.reload_config()
    with pytest.raises(RequestRejected, match="runs in real time") as real:
        api.step_simulation(1.0)
    assert real.value.status == 409
    with pytest.raises(
        RequestRejected, match="level: Input should be 'info', 'warning' or 'error'"
    ):
        api.get_log(level="loud")  # type: ignore[arg-type]
    with pytest.raises(RequestRejected, match="asks for no token"):
        api.make_login_link("control")


async def test_recording_from_the_client(tmp_path: Path) -> None:
    async with seat(tmp_path) as bridge:

        def record() -> Path:
            api = BridgeApi(bridge.http.url, timeout_s=PATIENCE_S)
            assert api.get_recording().state == "idle"
            assert api.start_recording("flight").state == "recording"
            with pytest.raises(RequestRejected):
                api.start_recording("flight")
            assert api.stop_recording().state == "idle"
            (stored,) = api.get_recordings()
            assert stored.readable
            api.get_recording_file(stored.name, tmp_path / "copy.mcap")
            assert api.get_replay().state == "idle"
            assert api.stop_replay().state == "idle"
            return tmp_path / "recordings" / stored.name

        original = await asyncio.to_thread(record)
        assert (tmp_path / "copy.mcap").read_bytes() == original.read_bytes()


async def test_feeds_of_the_client(tmp_path: Path) -> None:
    async with seat(tmp_path) as bridge:
        await asyncio.to_thread(_listen, bridge)


def _listen(bridge: Bridge) -> None:
    api = BridgeApi(bridge.http.url, timeout_s=PATIENCE_S)
    with api.live(
        poses_hz=30, previews=[PreviewRequest(camera="front", variant="raw", hz=15)]
    ) as feed:
        kinds = {type(feed.next(PATIENCE_S)) for _ in range(30)}
        assert kinds == {LivePoses, LivePreview}
        feed.subscribe(previews=[PreviewRequest(camera="plain", variant="raw", hz=15)])
        while not (
            isinstance(message := feed.next(PATIENCE_S), LivePreview)
            and message.header["camera"] == "plain"
        ):
            pass
    with pytest.raises(BridgeUnreachable, match="the live feed ended"):
        feed.subscribe(poses_hz=1)
    with (
        api.live(previews=[PreviewRequest(camera="rear")]) as feed,
        pytest.raises(RequestRejected, match="no camera 'rear'"),
    ):
        feed.next(PATIENCE_S)
    updates = api.get_updates()
    while not isinstance(first := next(updates), BridgeSnapshot):
        pass
    api.put_faults("mocap", "loss=5%")  # which is logged
    while not (isinstance(event := next(updates), EventView) and "faults" in event.text):
        pass
    updates.close()
    assert first.name == "seat"
    assert api.get_log(after=event.id - 1)[0] == event
    assert event not in api.get_log(level=EventLevel.ERROR)


def test_who_is_not_there_is_said() -> None:
    api = BridgeApi("http://127.0.0.1:9", timeout_s=2)
    with pytest.raises(BridgeUnreachable, match="is a bridge running there"):
        api.get_status()
    with pytest.raises(RestError, match="no live feed"):
        api.live(poses_hz=1)
