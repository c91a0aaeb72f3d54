"""A whole bridge, each part a process of its own, on our Flightmare server.

Ready lost, silence, restart.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.support.common import PATIENCE_S, wait_until
from tests.support.flightmare import number_in
from tests.support.harness import NAMES, Rig
from tests.support.programs import queued_s
from vil_bridge.client import Receiver

SILENCE_S: Final = 1.5

pytestmark = [pytest.mark.process, pytest.mark.long]


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with Rig(
        tmp_path_factory.mktemp("flightmare"),
        actors__drone__tracking__coast_after_ms=150,
        renderers__hall__type="flightmare",
        renderers__hall__silence_s=SILENCE_S,
        renderers__hall__answer_timeout_s=0.3,
    ) as made:
        ports = [str(made.pose_port), str(made.image_port)]
        made._commands["renderer"] = [sys.executable, "-m", "tests.support.flightmare", *ports]
        made.start_all()
        yield made


@pytest.fixture(scope="module")
def receiver(rig: Rig) -> Iterator[Receiver]:
    with Receiver(rig.endpoint, "front", color="rgb", variant="raw", encoding="raw") as made:
        yield made


def renderer(rig: Rig) -> dict[str, Any]:
    report: dict[str, Any] = rig.get()["renderers"]["hall"]["report"]
    return report


def read(receiver: Receiver, count: int) -> None:
    """So many pictures come, each shows the number of its own frame, none comes late or twice."""
    last, seen, begun_s = 0, 0, time.monotonic()
    while seen < count:
        assert time.monotonic() - begun_s < PATIENCE_S, (receiver.problem, receiver.counters)
        frame = receiver.next(1.0)
        if frame is not None:
            shown = number_in(frame.image, "front")
            assert shown == frame.frame_id or shown >= 1 << 62, "a picture of another pose"
            assert frame.frame_id > last
            last, seen = frame.frame_id, seen + 1


def test_the_first_ready_was_lost_and_pictures_belong_to_their_poses(
    rig: Rig, receiver: Receiver
) -> None:
    read(receiver, 60)
    wait_until(lambda: renderer(rig)["state"] == "running", what=rig.trouble)
    report = renderer(rig)
    assert report["facts"]["renderer"] == "painter"
    counters = report["counters"]
    assert counters["settings"] >= 2 and counters["answered"] > 60
    assert (
        counters["malformed"]
        == counters["unsupported"]
        == counters["foreign"]
        == counters["refused"]
        == 0
    )


def test_a_silent_renderer_gets_the_settings_again(rig: Rig, receiver: Receiver) -> None:
    before = renderer(rig)["counters"]
    pid = rig.pid("renderer")
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_until(
            lambda: "no pose for 0.3 s" in renderer(rig)["reason"], what="an unanswered pose"
        )
        wait_until(
            lambda: renderer(rig)["counters"]["restarts"] > before["restarts"],
            what="a new beginning",
        )
        assert renderer(rig)["state"] == "waiting"
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_until(rig.whole, what=rig.trouble)
    read(receiver, 20)


def test_a_restarted_renderer_is_used_again(rig: Rig, receiver: Receiver) -> None:
    rig.kill("renderer")
    wait_until(
        lambda: "--protocol flightmare" in renderer(rig)["reason"], what="a renderer that is missed"
    )
    rig.start("renderer")
    rig.await_ready("renderer")
    waited_s = queued_s(map(rig.pid, NAMES))
    took_s = wait_until(rig.whole, what=rig.trouble, period_s=0.05) - (
        queued_s(map(rig.pid, NAMES)) - waited_s
    )
    read(receiver, 20)
    assert took_s < 5.0
    assert rig.alive("daemon") and renderer(rig)["counters"]["malformed"] == 0
