"""The embedded renderer as its own process, spoken to as the original clients speak.

Raw sockets, their messages.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import zmq

from tests.support.common import needs_gl
from tests.support.embedded import CAMERA, NOBODY, looking, renderer, view
from tests.support.programs import Program, run
from vil_bridge.core.geometry import optical_to_unity
from vil_bridge.core.types import ImageArray, Modality

pytestmark = [pytest.mark.process, pytest.mark.gl]

LOAD_S = 300.0

V2_MESSAGE = (
    b'{"camDepthScale":0.2,"camFOV":70.0,"camHeight":480,"camWidth":640,'
    b'"cameras":[{"ID":"Camera_Left","channels":3,'
    b'"doesLandmarkVisCheck":false,"hasCollisionCheck":true,"isDepth":false,'
    b'"outputIndex":0,"position":[-2.0,-1.5,1.06],'
    b'"rotation":[0.0,-0.0499791692706783,0.0,0.998750260394966]}],'
    b'"ntime":1795199186488295359,"objects":[],'
    b'"sceneFilename":"Abandoned_Factory_Morning","sceneIsInternal":true}'
)
V3_CAMERA = (
    b'{"ID":"Camera_Right","doesLandmarkVisCheck":false,"hasCollisionCheck":true,'
    b'"motionBlurPercent":0.0,'
    b'"outputShaderType":3,"position":[2.0,1.5,1.08],"rotation":[0.0,0.0699428473375328,'
    b"0.0,0.99755100025328],"
    b'"shouldRenderThisFrame":true}'
)


class RawClient:
    """The sockets of an original client: it binds both."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        self._poses = context.socket(zmq.PUB)
        self._images = context.socket(zmq.SUB)
        self._images.subscribe(b"")
        self.pose_port = self._poses.bind_to_random_port("tcp://127.0.0.1")
        self.image_port = self._images.bind_to_random_port("tcp://127.0.0.1")

    def ask(self, message: bytes) -> tuple[dict[str, Any], list[bytes]]:
        """Repeat a pose until its own answer arrives; what answers an older one is passed over."""
        wanted = json.loads(message)["ntime"]
        deadline = time.monotonic() + LOAD_S
        while time.monotonic() < deadline:
            self._poses.send_multipart([b"Pose", message])
            while self._images.poll(200):
                header, *pictures = self._images.recv_multipart()
                answer = json.loads(header)
                if answer["ntime"] == wanted:
                    return answer, pictures
        raise AssertionError(f"no answer to {wanted} within {LOAD_S} s")

    def close(self) -> None:
        self._poses.close(linger=0)
        self._images.close(linger=0)


@pytest.fixture
def client() -> Iterator[RawClient]:
    context = zmq.Context[zmq.Socket[bytes]]()
    made = RawClient(context)
    yield made
    made.close()
    context.term()


def rgb(wire: bytes) -> ImageArray:
    """As the original clients read it: bottom row first."""
    assert len(wire) == 640 * 480 * 3
    return np.flipud(np.frombuffer(wire, np.uint8).reshape(480, 640, 3))


def test_original_messages_get_pictures_and_a_signal_ends_the_process(client: RawClient) -> None:
    needs_gl()
    ports = ("-input-port", client.pose_port, "-output-port", client.image_port)
    with Program(
        sys.executable,
        "-m",
        "vil_renderer.embedded.servers.main",
        "-client-ip",
        "127.0.0.1",
        *ports,
    ) as child:
        answer, pictures = client.ask(V2_MESSAGE)
        assert answer["ntime"] == 1795199186488295359
        assert (answer["camWidth"], answer["camHeight"], answer["camDepthScale"]) == (640, 480, 0.2)
        assert (answer["cameraIDs"], answer["channels"]) == (["Camera_Left"], [3])
        assert isinstance(answer["hasCameraCollision"], bool)
        assert rgb(pictures[0]).std() > 10.0
        check_depth_of_v3(client)
        check_picture_is_the_librarys(client)
        assert child.end() == 0
        assert not child.said("Traceback")
        assert child.said("drawing hall with")


def check_depth_of_v3(client: RawClient) -> None:
    message = json.loads(V2_MESSAGE)
    message["cameras"], message["ntime"] = [json.loads(V3_CAMERA)], 77
    message["obstaclePerturbationFile"] = ""
    answer, pictures = client.ask(json.dumps(message).encode())
    assert (answer["cameraIDs"], answer["cameraIndexes"], answer["channels"]) == (
        ["Camera_Right"],
        [0],
        [2],
    )
    assert len(pictures[0]) == 640 * 480 * 2
    depth_m = np.frombuffer(pictures[0], "<u2") / 65535 * 100
    assert depth_m.min() > 0.05
    assert depth_m.max() < 25.0
    assert answer["lidarReturn"] == pytest.approx(1.5, abs=1e-6)
    assert not answer["hasCameraCollision"]
    assert answer["vil"]["renderer"] == renderer("hall").info["gl_renderer"]


def check_picture_is_the_librarys(client: RawClient) -> None:
    """Same pose by wire and in process: same pixels, so rows, channels and frames are right."""
    pose = looking((-2.0, 0.6, 1.5), 12.0, 4.0, -3.0)
    position, turn = optical_to_unity(pose.p_m, pose.q_xyzw)
    message = json.loads(V2_MESSAGE)
    message["cameras"][0].update(position=list(position), rotation=list(turn))
    message["ntime"] = 78
    answer, pictures = client.ask(json.dumps(message).encode())
    asked = (view(pose), view(pose, Modality.DEPTH))
    expected = renderer("hall").render(asked, NOBODY)[0].pixels
    difference = np.abs(rgb(pictures[0]).astype(int) - expected)
    assert (difference > 2).mean() < 0.005
    marks = {mark.name: mark for mark in renderer("hall").landmarks(asked[0])}
    assert len(marks) >= 4
    assert {mark["ID"] for mark in answer["landmarksInView"]} == marks.keys()
    for mark in answer["landmarksInView"]:
        u, v, depth_m = mark["position"]
        truth = marks[mark["ID"]]
        assert (u * 640 - 0.5, (1.0 - v) * 480 - 0.5, depth_m) == pytest.approx(
            (truth.u_px, truth.v_px, truth.depth_m)
        )
    assert CAMERA.f_px == pytest.approx(342.755521608)


def test_a_signal_while_it_loads_ends_it_at_once(client: RawClient) -> None:
    needs_gl()
    code = (
        "import os, signal, threading\n"
        "from vil_renderer.embedded import renderer\n"
        "from vil_renderer.embedded.servers import main as server\n"
        "load = renderer.load_scene\n"
        "def loading(name):\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    return load(name)\n"
        "renderer.load_scene = loading\n"
        f"server.run('127.0.0.1', {client.pose_port}, {client.image_port})\n"
        "raise AssertionError('went on')\n"
    )
    done = run(sys.executable, "-c", code)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_machine_that_cannot_draw_is_told_what_to_install(client: RawClient) -> None:
    command = [
        sys.executable,
        "-m",
        "vil_renderer.embedded.servers.main",
        "-input-port",
        str(client.pose_port),
    ]
    environment = {"PATH": "/usr/bin:/bin", "GLCONTEXT_LINUX_LIBEGL": "libabsent.so"}
    done = subprocess.run(command, env=environment, capture_output=True, timeout=60.0, check=False)
    assert done.returncode == 3
    assert b"apt-get install libegl1 libgl1" in done.stderr
    assert b"Traceback" not in done.stderr
