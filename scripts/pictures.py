"""Draw the pictures of the documentation with the demonstration and the embedded renderer.

python scripts/pictures.py docs/figures            # all
python scripts/pictures.py docs/figures rooms      # one

``dashboard`` and ``tour`` run the demonstration and a headless Chromium; ``rooms``, ``humans`` and
``people`` need OpenGL alone.
"""

from __future__ import annotations

import contextlib
import math
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import numpy as np
from PIL import Image

from vil_adapters.lab.motions import Scenario
from vil_bridge.bodies.skeleton import place_of
from vil_bridge.bodies.walking_human import WalkMotion
from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.geometry import Transform, q_from_euler_zyx, q_mul
from vil_bridge.core.types import (
    ActorKind,
    ActorState,
    CameraModel,
    ImageArray,
    Modality,
    TrackingState,
    View,
    WorldSnapshot,
)
from vil_renderer.colour_views import ids_to_colour, normals_to_colour
from vil_renderer.embedded import EmbeddedRenderer, load_scene
from vil_renderer.embedded.actors.people.builds import BUILDS
from vil_simulation.demo.child_processes import free_ports

_ROOT: Final = Path(__file__).parents[1]
_OPTICAL: Final = (-0.5, 0.5, -0.5, 0.5)
"""Optical axes of a camera that looks along the x axis of its carrier."""
_START_S: Final = 60.0
_HISTORY_S: Final = 25.0
_SCALE: Final = 1.5
_LARGEST_BYTES: Final = 300_000


def rooms(path: Path) -> None:
    """Draw the drone of one hall and the person of the other in one image."""
    snapshot = _snapshot(8.2)
    view = _view((960, 540), (-4.6, -3.4, 2.7), 38.0, 14.0, 52.0)
    with EmbeddedRenderer(load_scene("hall"), "high") as renderer:
        _save(renderer.render([view], snapshot)[0].pixels, path)


def humans(path: Path) -> None:
    """Draw the person as image, instance ids and normals, side by side."""
    snapshot = _snapshot(8.2)
    person = next(actor for actor in snapshot.actors if actor.name == "human").T_world_body.p_m
    place = (person[0] - 2.3, person[1] - 1.6, 1.5)
    yaw_deg = math.degrees(math.atan2(person[1] - place[1], person[0] - place[0]))
    modalities = (Modality.RGB, Modality.INSTANCE, Modality.NORMALS)
    views = [_view((480, 480), place, yaw_deg, 10.0, 48.0, modality) for modality in modalities]
    with EmbeddedRenderer(load_scene("hall"), "high") as renderer:
        rgb, ids, normals = (picture.pixels for picture in renderer.render(views, snapshot))
    _save(np.hstack([rgb, ids_to_colour(ids), normals_to_colour(normals)]), path)


def people(path: Path) -> None:
    """Draw every human: a row of each as a whole from four sides, face and hand."""
    rows = []
    with EmbeddedRenderer(load_scene("lab"), "high") as renderer:
        for build in BUILDS:
            row = []
            for turn_deg, t_s in ((0, 0.35), (45, 0.60), (90, 0.85), (180, 1.10)):
                person = _walker(build, t_s, turn_deg)
                row.append((person, _view((200, 380), (2.9, 0.0, 1.3), 180.0, 8.0, 40.0)))
            front = row[0][0].skeleton
            assert front is not None
            head, hand = (front.p_m[front.model.bones.index(bone)] for bone in ("Head", "LHand"))
            row.append(
                (
                    row[1][0],
                    _view((200, 380), (head[0] + 1.1, 0.03, head[2] + 0.10), 180.0, 2.0, 38.0),
                )
            )
            row.append(
                (row[0][0], _view((200, 380), (hand[0] + 0.75, hand[1], hand[2]), 180.0, 4.0, 34.0))
            )
            shots = [
                renderer.render([view], WorldSnapshot(0, (person,)))[0].pixels
                for person, view in row
            ]
            rows.append(np.hstack(shots))
    _save(np.vstack(rows), path)


def dashboard(path: Path) -> None:
    """Show the dashboard in Chromium, with the rooms of the demonstration at a rate that leaves
    time to the browser.
    """
    from playwright.sync_api import sync_playwright

    switches = [
        "--no-sandbox",
        "--disable-gpu",
        "--use-angle=swiftshader",
        "--enable-unsafe-swiftshader",
    ]
    with (
        _slow_bridge() as url,
        sync_playwright() as driver,
        tempfile.TemporaryDirectory() as folder,
    ):
        # The page is drawn in software, and the demonstration comes first.
        polite = Path(folder) / "chromium"
        polite.write_text('#!/bin/sh\nexec nice -n 19 /usr/bin/chromium "$@"\n')
        polite.chmod(0o755)
        browser = driver.chromium.launch(executable_path=str(polite), args=switches)
        page = browser.new_page(
            viewport={"width": 1280, "height": 900},
            device_scale_factor=_SCALE,
            color_scheme="light",
        )
        page.goto(url, wait_until="commit")
        time.sleep(_HISTORY_S)
        shot = Path(folder) / "page.png"
        page.screenshot(path=str(shot))
        browser.close()
        _save(np.asarray(Image.open(shot).convert("RGB")), path)


def tour(path: Path) -> None:
    """Put the demonstration's images with and without correction above their errors."""
    with _demo(20) as (_, out):
        raw, corrected = (_grey(out / f"{name}.png") for name in ("raw", "compensated"))
        _save(np.vstack([np.hstack([raw, corrected]), _grey(out / "difference.png")]), path)


PICTURES: Final[Mapping[str, Callable[[Path], None]]] = {
    "rooms": rooms,
    "humans": humans,
    "people": people,
    "dashboard": dashboard,
    "tour": tour,
}


def _walker(build: str, t_s: float, turn_deg: float) -> ActorState:
    """Return a human who walks over the origin, turned from x to the left."""
    skeleton = WalkMotion(build).at(int(t_s * NS_PER_S)).skeletons[0]
    left, right = (skeleton.p_m[skeleton.model.bones.index(bone)] for bone in ("LThigh", "RThigh"))
    now_rad = math.atan2((right - left)[0], (left - right)[1])
    turned = skeleton.moved(
        Transform.of((0.0, 0.0, 0.0), q_from_euler_zyx(math.radians(turn_deg) - now_rad, 0.0, 0.0))
    )
    x, y = turned.p_m[0, :2].tolist()
    placed = turned.moved(Transform.of((-x, -y, 0.0)))
    return ActorState(
        build, ActorKind.HUMAN, TrackingState.TRACKED, 0, place_of(placed), placed, build
    )


def _snapshot(t_s: float) -> WorldSnapshot:
    snapshot = Scenario.simulated().snapshot(int(t_s * NS_PER_S))
    assert snapshot is not None, "a simulated vehicle is always tracked"
    return snapshot


def _view(
    size: tuple[int, int],
    p_m: tuple[float, float, float],
    yaw_deg: float,
    pitch_deg: float,
    fov_y_deg: float,
    modality: Modality = Modality.RGB,
) -> View:
    q_world_carrier = q_from_euler_zyx(math.radians(yaw_deg), math.radians(pitch_deg), 0.0)
    pose = Transform.of(p_m, q_mul(q_world_carrier, np.array(_OPTICAL)))
    return View(CameraModel("observer", *size, math.radians(fov_y_deg)), modality, pose, 0)


@contextlib.contextmanager
def _slow_bridge() -> Iterator[str]:
    """Run lab, renderer, bridge and an onboard client with few images a second.

    Give the dashboard's address.
    """
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        flight, actor, poses, images, http, stream = free_ports(6, socket.SOCK_STREAM)
        settings = {
            "sources.motive_flight.command_port": flight,
            "sources.motive_actor.command_port": actor,
            "sources.imu.device": f"{folder}/imu",
            "renderers.hall.pose_port": poses,
            "renderers.hall.image_port": images,
            "renderers.hall.answer_timeout_s": 10,
            "http.port": http,
            "stream.bind": f"tcp://127.0.0.1:{stream}",
            "cameras.front.rate_hz": 5,
            "cameras.plain.rate_hz": 1,
            "cameras.observer.rate_hz": 1,
        }
        bridge = ["run", str(_ROOT / "configs" / "demo.yaml")]
        bridge += [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        for words in (
            [
                "lab",
                "--motive",
                f"flight@{flight}",
                "--motive",
                f"actor@{actor}",
                "--imu",
                f"{folder}/imu",
            ],
            [
                "renderer",
                "--profile",
                "low",
                "--input-port",
                str(poses),
                "--output-port",
                str(images),
            ],
            bridge,
        ):
            stack.enter_context(_running("-m", "vil_bridge", *words))
        url = f"http://127.0.0.1:{http}/"
        _await_answer(url)
        stack.enter_context(
            _running(str(_ROOT / "vil_bridge" / "client.py"), f"tcp://127.0.0.1:{stream}")
        )
        yield url


@contextlib.contextmanager
def _running(*words: str) -> Iterator[None]:
    child = subprocess.Popen([sys.executable, *words], stdout=subprocess.DEVNULL)  # noqa: S603
    try:
        yield
    finally:
        child.send_signal(signal.SIGINT)
        child.wait(_START_S)


@contextlib.contextmanager
def _demo(seconds: int) -> Iterator[tuple[str, Path]]:
    """Run the demonstration, give the dashboard's address and the folder of its images.

    To its end unless ``0``.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "vil_bridge",
            "demo",
            "--seconds",
            str(seconds),
            "--out",
            folder,
        ]
        command += ["--json", f"{folder}/summary.json"]
        child = subprocess.Popen(  # noqa: S603
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert child.stdout is not None
        try:
            text = ""
            while not (found := re.search(r"http://\S+", text)):
                text += child.stdout.readline() or sys.exit(f"the demonstration ended: {text}")
            _await_answer(found[0])
            if seconds:
                child.communicate(timeout=_START_S + seconds)
            yield found[0], Path(folder)
        finally:
            child.send_signal(signal.SIGINT)
            child.wait(_START_S)


def _await_answer(url: str) -> None:
    ends_at = time.monotonic() + _START_S
    while time.monotonic() < ends_at:
        with contextlib.suppress(OSError), urllib.request.urlopen(url):  # noqa: S310
            return
        time.sleep(0.5)
    sys.exit(f"no answer from {url}")


def _grey(path: Path) -> ImageArray:
    return np.asarray(Image.open(path).convert("L"))


def _save(pixels: ImageArray, path: Path) -> None:
    """Write a picture as WebP, as good as its largest size allows."""
    image = Image.fromarray(pixels)
    for quality in range(90, 40, -5):
        image.save(path, quality=quality, method=6)
        if path.stat().st_size < _LARGEST_BYTES:
            return
    sys.exit(f"{path} is too large")


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    for name in sys.argv[2:] or PICTURES:
        PICTURES[name](folder / f"{name}.webp")
