"""The renderer's end against strict stand-ins of the original clients, for VIL_SOAK_FRAMES poses in
each mode.

Poses are lost, late, repeated and come in bursts; both ends are restarted in the middle of their
work. The number of the pose is in its cameras' positions, the renderer paints it into the pictures,
and it is read back from there.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import threading
import time
from collections import Counter
from functools import partial
from typing import Final

import numpy as np
import pytest

from tests.support.common import wait_until
from tests.support.flightgoggles import server
from tests.support.flightgoggles_original import (
    DEPTH,
    Answer,
    Camera,
    OriginalClient,
    ntime_of,
    number_of,
)
from vil_bridge.core.types import ImageArray, Modality, RenderedImage, View, WorldSnapshot
from vil_renderer.flightgoggles.server import RenderedRequest

FRAMES: Final = int(os.environ.get("VIL_SOAK_FRAMES", "300"))
SEED: Final = int(os.environ.get("VIL_SOAK_SEED", "7"))
BETWEEN: Final = min(FRAMES // 6, 500)
"""Poses from one restart to the next, of either end in turn."""
SIZE_PX: Final = (8, 6)
LIMIT_S: Final = 180.0
BURST: Final = 5
FLOOD: Final = 20
"""Poses at once: far more than the client's queue holds."""
DEPTH_CODES: Final = 60_000
CAMERAS: Final = ("Camera_Left", "Camera_Right", "Camera_Seldom")
ENDS: Final = (
    "answered",
    "superseded",
    "swallowed",
    "malformed",
    "failed",
    "undelivered",
    "abandoned",
)

pytestmark = [pytest.mark.wire, pytest.mark.timeout(900.0 + FRAMES / 20)]


def cameras_of(number: int, version: int) -> list[Camera]:
    """The pose of that number: Unity's x tells it, z the camera."""
    left, right, seldom = ((float(number), 1.5, float(place)) for place in range(3))
    if version == 2:
        return [Camera(CAMERAS[0], left), Camera(CAMERAS[1], right)]
    return [
        Camera(CAMERAS[0], left),
        Camera(CAMERAS[1], right, shader=DEPTH),
        Camera(CAMERAS[2], seldom, due=number % 3 == 0),
    ]


class Painter:
    """Draws what it was asked for.

    Number, camera and its own number in the top row, the bottom row black.
    """

    def __init__(self, life: int) -> None:
        self.life = life
        self.go_on = threading.Event()
        self.go_on.set()
        self.drawing = threading.Event()

    def __call__(self, views: tuple[View, ...], snapshot: WorldSnapshot) -> RenderedRequest:
        self.drawing.set()
        assert self.go_on.wait(LIMIT_S)
        return RenderedRequest(
            tuple(RenderedImage(view, self._paint(view)) for view in views if view.due)
        )

    def _paint(self, view: View) -> ImageArray:
        number, place = round(view.T_world_camera.p_m[0]), round(view.T_world_camera.p_m[1])
        shape = view.camera.height_px, view.camera.width_px
        if view.modality is Modality.DEPTH:
            depth = np.full(shape, 65535, np.uint16)
            depth[0, :3] = 1 + number % DEPTH_CODES, 1 + place, 1 + self.life
            return depth
        pixels = np.zeros((*shape, 3), np.uint8)
        pixels[0, 0], pixels[0, 1] = list(number.to_bytes(3, "big")), (place, self.life, 255)
        return pixels


def read_back(picture: ImageArray) -> tuple[int, int, int]:
    """Number, camera and who painted; the bottom row has to be at the bottom."""
    assert not picture[-1].any()
    if picture.ndim == 2:
        code, place, life = (int(value) - 1 for value in picture[0, :3])
        return code, place, life
    assert picture[0, 1, 2] == 255
    return (
        int.from_bytes(picture[0, 0].tobytes(), "big"),
        int(picture[0, 1, 0]),
        int(picture[0, 1, 1]),
    )


class Soak:
    """Client and renderer with all their misfortunes, and the books about every pose.

    Attributes:
        seen: what happened, counted.
    """

    def __init__(self, version: int, newest_only: bool) -> None:
        self.version, self.newest_only = version, newest_only
        self.seen: Counter[str] = Counter()
        self._random = random.Random(SEED)
        self._number = 0
        self._first_of_client = 0
        self._life = 0
        self._last_drawn_by = 0
        self._renderer = contextlib.ExitStack()
        self._client = OriginalClient(version, SIZE_PX)
        self._start_renderer()

    def close(self) -> None:
        self._painter.go_on.set()
        self._renderer.close()
        self._client.close()

    # --- both ends ------------------------------------------------------------------------------

    def _start_renderer(self) -> None:
        self._life += 1
        self._painter = Painter(self._life)
        self._counters = self._renderer.enter_context(
            server(self._client.taken, self._painter, newest_only=self.newest_only)
        )

    def restart_renderer(self) -> None:
        """While poses wait for it."""
        self._hold_in_the_middle_of_a_burst()
        self._painter.go_on.set()
        self._renderer.close()
        self._start_renderer()
        self.meet()
        self.seen["renderer restarts"] += 1

    def restart_client(self, renderer_too: bool = False) -> None:
        """While one of its poses is drawn and more wait: none of these is for the next client."""
        sent = self._hold_in_the_middle_of_a_burst()
        self._client.close()
        self._first_of_client = self._number
        self._client = OriginalClient(self.version, SIZE_PX, self._client.taken)
        self._painter.go_on.set()
        if renderer_too:
            self._renderer.close()
            self._start_renderer()
        self.meet()
        self.seen["client restarts"] += 1
        self.seen["poses of clients that went"] += sent

    def _hold_in_the_middle_of_a_burst(self) -> int:
        self._painter.drawing.clear()
        self._painter.go_on.clear()
        first, *rest = self._next(BURST)
        # After a flood the client's queue takes poses again only once ZeroMQ's own thread has run.
        wait_until(lambda: self._send(first), LIMIT_S, "room in the client's queue", period_s=0.001)
        sent = 1 + sum(map(self._send, rest))
        assert self._painter.drawing.wait(LIMIT_S)
        return sent

    def meet(self) -> None:
        """Send until there is an answer to a pose after which nothing was pending.

        Then the books begin again.
        """
        deadline = time.monotonic() + LIMIT_S
        while self._receive(0.03) is None or self._last_drawn_by != self._life:
            assert time.monotonic() < deadline, f"no answer: {self._counters}"
            self.seen["poses into the void"] += self._send(*self._next())
        (fence,) = self._next()
        while not self._send(fence):
            assert time.monotonic() < deadline
        before = -1
        while before != fence:
            answer = self._receive(LIMIT_S)
            assert answer is not None, f"deadlock: {self._counters}"
            assert answer > before, "not in order"
            before = answer
        self._wait_until_all_are_settled()
        self._base = Counter(self._counters)

    # --- poses ----------------------------------------------------------------------------------

    def step(self) -> None:
        """One of the things that happen to poses; then all of them have to be accounted for."""
        kind = self._random.choices(
            ("plain", "burst", "repeated", "late", "lost", "flood"), (68, 8, 8, 8, 6, 2)
        )[0]
        self.seen[kind] += 1
        if kind == "lost":
            self._next()
            return
        numbers = self._next(
            {"plain": 1, "burst": BURST, "repeated": 1, "late": 3, "flood": FLOOD}[kind]
        )
        if kind == "repeated":
            numbers *= 3
        elif kind == "late":
            numbers.reverse()
        sent = [number for number in numbers if self._send(number)]
        self.seen["lost in the client's queue"] += len(numbers) - len(sent)
        self._settle(sent)

    def _settle(self, sent: list[int]) -> None:
        answers: list[int] = []
        self._deadline = time.monotonic() + LIMIT_S
        while self._settled() < len(sent) or len(answers) < self._since("answered"):
            answer = self._receive(0.01 if self._settled() == len(sent) else 0.001)
            if answer is not None:
                answers.append(answer)
                self._deadline = time.monotonic() + LIMIT_S
            assert time.monotonic() < self._deadline, f"deadlock: {sent} {answers} {self._counters}"
        if self.newest_only:
            rest = iter(sent)
            assert all(answer in rest for answer in answers), f"{answers} to {sent}"
            assert answers[-1:] == sent[-1:] or self._since("undelivered"), (
                "the newest pose is always answered"
            )
        else:
            assert answers == sent
        self._wait_until_all_are_settled()
        self.seen["sent"] += len(sent)
        for name in ("answered", "superseded", "undelivered"):
            self.seen[name] += self._since(name)
        self._base = Counter(self._counters)

    def _since(self, name: str) -> int:
        return self._counters[name] - self._base[name]

    def _settled(self) -> int:
        return sum(self._since(name) for name in ENDS)

    def _wait_until_all_are_settled(self) -> None:
        def settled() -> bool:
            return self._counters["poses"] == sum(self._counters[name] for name in ENDS)

        wait_until(settled, LIMIT_S, self._counters.copy, period_s=0.0)

    def _next(self, count: int = 1) -> list[int]:
        self._number += count
        return list(range(self._number - count, self._number))

    def _send(self, number: int) -> bool:
        return self._client.send(ntime_of(number), cameras_of(number, self.version))

    def _receive(self, timeout_s: float) -> int | None:
        """The number of the next answer, which all of its pictures tell as well."""
        answer = self._client.receive(timeout_s)
        if answer is None:
            return None
        number = number_of(answer)
        assert number >= self._first_of_client, f"pose {number} of a client that went"
        self._check_pictures(answer, number)
        self.seen["answers read"] += 1
        return number

    def _check_pictures(self, answer: Answer, number: int) -> None:
        asked = [camera for camera in cameras_of(number, self.version) if camera.due]
        assert (
            answer.metadata["cameraIDs"] == [camera.ID for camera in asked] == list(answer.pictures)
        )
        if self.version == 3:
            assert answer.metadata["cameraIndexes"] == [
                CAMERAS.index(camera.ID) for camera in asked
            ]
        for camera in asked:
            painted, place, life = read_back(answer.pictures[camera.ID])
            coded = number % DEPTH_CODES if camera.shader == DEPTH else number
            assert (painted, place) == (coded, CAMERAS.index(camera.ID)), (
                f"in the picture of pose {number}"
            )
            assert life in (self._last_drawn_by, self._life) and life >= self._last_drawn_by
            self._last_drawn_by = life
            self.seen["pictures"] += 1


@pytest.mark.parametrize("newest_only", [True, False], ids=["newest", "fifo"])
@pytest.mark.parametrize("version", [2, 3])
def test_every_picture_belongs_to_its_pose(version: int, newest_only: bool) -> None:
    soak = Soak(version, newest_only)
    try:
        soak.meet()
        misfortunes = itertools.cycle((soak.restart_client, soak.restart_renderer))
        while soak.seen["sent"] < FRAMES:
            soak.step()
            if soak.seen["sent"] >= BETWEEN * (
                soak.seen["client restarts"] + soak.seen["renderer restarts"] + 1
            ):
                next(misfortunes)()
        soak.restart_client(renderer_too=True)
    finally:
        soak.close()
    seen = soak.seen
    print(f"\nv{version} {'newest' if newest_only else 'fifo'}: {dict(seen)}")
    assert seen["answered"] + seen["superseded"] + seen["undelivered"] == seen["sent"]
    assert (seen["superseded"] > 0) == newest_only
    assert newest_only or seen["undelivered"] == 0
    assert seen["client restarts"] >= 2 and seen["renderer restarts"] >= 2


LARGE_PX: Final = (1024, 768)
UNREAD: Final = 40
"""Pictures of that size, more than all queues and buffers between two ends hold."""


@pytest.mark.parametrize("newest_only", [True, False], ids=["newest", "fifo"])
def test_a_client_that_does_not_read_loses_pictures_or_halts_the_renderer(
    newest_only: bool,
) -> None:
    with (
        OriginalClient(2, LARGE_PX) as client,
        server(client.taken, Painter(1), newest_only=newest_only) as counters,
    ):

        def settled(at_least: int) -> bool:
            return at_least <= counters["poses"] == sum(counters[end] for end in ENDS)

        first, answer = 0, None
        while answer is None:
            first += client.send(ntime_of(first), cameras_of(first, 2)[:1])
            answer = client.receive(0.03)
        while number_of(answer) != first - 1:  # of the last one, which is always answered
            answer = client.receive(LIMIT_S)
            assert answer is not None
        wait_until(partial(settled, 1), what=counters.copy, period_s=0.002)
        before = Counter(counters)
        for number in range(first, first + UNREAD):
            send = partial(client.send, ntime_of(number), cameras_of(number, 2)[:1])
            wait_until(send, what=counters.copy, period_s=0.002)
            if newest_only:
                wait_until(
                    partial(settled, before["poses"] + number - first + 1),
                    what=counters.copy,
                    period_s=0.002,
                )
        assert counters["answered"] - before["answered"] < UNREAD
        # None where all wait for the reader.
        undelivered = counters["undelivered"] - before["undelivered"]
        got: list[int] = []
        while len(got) < UNREAD - undelivered:
            answer = client.receive(LIMIT_S)
            assert answer is not None
            got.append(read_back(answer.pictures[CAMERAS[0]])[0])
        if newest_only:
            assert undelivered > 0 and client.receive(0.5) is None
            assert got == sorted(got)
        else:
            assert got == list(range(first, first + UNREAD)), "in strict order nothing is lost"
