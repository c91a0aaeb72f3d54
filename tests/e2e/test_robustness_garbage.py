"""Rubbish on every port of a bridge at work: counted, survived, and no obstacle to the pictures."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import statistics
import threading
import time
import tty
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.common import wait_until
from tests.support.garbage import HTTP, Thrower
from tests.support.harness import Rig, delivered, rss_mb, sockets_of
from vil_bridge.protocols.mavlink import framing
from vil_bridge.protocols.mavlink import messages as mavlink

SOAK_S: Final = float(os.environ.get("VIL_SOAK_S", "10"))
LARGEST_GROWTH_MB: Final = 10.0
MOST_CONNECTIONS: Final = 8  # client 2, renderer 2, HTTP
ENDED: Final = 0.99
"""Share of the ended connections that libzmq tells of."""

pytestmark = [pytest.mark.process, pytest.mark.timeout(900 + 2 * SOAK_S)]


class Autopilot:
    """A pty whose far end the bridge reads: an IMU at rest, whatever else is written between."""

    def __init__(self, link: Path) -> None:
        self.master, self._slave = os.openpty()
        tty.setraw(self._slave)
        os.set_blocking(self.master, False)
        link.symlink_to(os.ttyname(self._slave))
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        sequence = 0
        while not self._over.wait(0.005):
            sequence += 1
            time_us = time.monotonic_ns() // 1000
            body = mavlink.HighresImu(time_us, 0.0, 0.0, -9.81, 0.0, 0.0, 0.0)
            with contextlib.suppress(BlockingIOError):
                os.write(self.master, framing.encode(body, sequence, system=1, component=1))

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        os.close(self.master)
        os.close(self._slave)


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Autopilot]]:
    link = tmp_path_factory.mktemp("serial") / "imu"
    autopilot = Autopilot(link)
    yield link, autopilot
    autopilot.close()


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory, line: tuple[Path, Autopilot]) -> Iterator[Rig]:
    folder = tmp_path_factory.mktemp("garbage")
    with (
        pytest.MonkeyPatch.context() as patch,
        Rig(folder, imu=line[0], actors__drone__tracking__coast_after_ms=150) as made,
    ):
        # One arena a thread would fill up in its own time, which is no growth.
        patch.setenv("MALLOC_ARENA_MAX", "2")
        made.start_all()
        yield made


@pytest.mark.long
def test_garbage_everywhere(rig: Rig, line: tuple[Path, Autopilot], record_property: Any) -> None:
    pids = {name: rig.pid(name) for name in ("daemon", "client")}
    before = rig.get()
    memory: list[float] = []
    after_rounds: list[float] = []
    begun_s = time.monotonic()
    with Thrower(rig, line[1].master) as thrower:
        # Two fill what is reused.
        while time.monotonic() - begun_s < SOAK_S or len(after_rounds) < 3:
            for _ in thrower.round():
                memory.append(rss_mb(pids["daemon"]))
                assert rig.alive("daemon"), rig.log("daemon")[-3000:]
            after_rounds.append(statistics.median(memory[-20:]))
            seen = rig.received()
            wait_until(
                lambda seen=seen: rig.received() > seen + 5,  # type: ignore[misc]
                what=rig.trouble,
            )
        took_s = time.monotonic() - begun_s
        pictures = rig.received() - delivered(before)
        thrown = thrower.thrown
        wait_until(
            lambda: not _missing(rig, thrown, before), what=lambda: _missing(rig, thrown, before)
        )
    wait_until(lambda: not rig.trouble(), what=rig.trouble)
    wait_until(
        lambda: _connections(pids["daemon"]) <= MOST_CONNECTIONS,
        what=lambda: _connections(pids["daemon"]),
    )
    report = {
        "seconds": round(took_s, 1),
        "rounds": len(after_rounds),
        "thrown": dict(thrower.thrown),
        "pictures_per_s": round(pictures / took_s, 1),
        "rss_mb": {"first": memory[0], "after_rounds": after_rounds},
    }
    record_property("garbage", report)
    print(json.dumps(report))
    assert {name: rig.pid(name) for name in pids} == pids and all(map(rig.alive, pids))
    assert after_rounds[-1] - after_rounds[1] < LARGEST_GROWTH_MB, report
    log = rig.log("daemon")
    # A renderer that a busy machine holds up is told as well; that is not about garbage.
    warnings = [
        line
        for line in log.splitlines()
        if "WARNING" in line and "vil_bridge.daemon.readiness" not in line
    ]
    assert (
        "Traceback" not in log and "ERROR" not in log and len(warnings) < 20 * len(after_rounds)
    ), log[-3000:]


def test_idle_peers_do_not_keep_people_out(rig: Rig) -> None:
    """Whoever connects and asks nothing, or half a question, is cut off."""
    with contextlib.ExitStack() as held:
        for i in range(200):  # more than are answered, fewer than may be connected
            peer = held.enter_context(socket.create_connection(("127.0.0.1", rig.http_port)))
            peer.sendall(HTTP[: i % 40])
        with pytest.raises(OSError, match="503"):
            rig.get()
        wait_until(lambda: not rig.trouble(), what=rig.trouble, period_s=0.2)
    assert rig.get()["faults"]["http"]["too_many"] > 0


def test_bridge_ends_clean_after_garbage(rig: Rig) -> None:
    code, waited_s = rig.end("daemon")
    assert code == 0 and waited_s < 2.0


def _connections(pid: int) -> int:
    return sum(not s.listens for s in sockets_of(pid, "tcp"))


def _missing(
    rig: Rig, thrown: Counter[str], before: dict[str, Any]
) -> dict[str, tuple[int, float]]:
    """Ports that counted less than what was thrown at them: counted and thrown."""
    first, last = _counted(before), _counted(rig.get())
    unseen = sum(s.dropped for s in sockets_of(rig.pid("daemon"), "udp"))  # the kernel counts them
    counted = {name: count - first[name] for name, count in last.items()}
    enough = {
        "control": thrown["control"],
        "control connections": ENDED * (thrown["raw control"] + thrown["control huge"]),
        "data": thrown["data"],
        "data connections": ENDED * (thrown["raw data"] + thrown["data huge"]),
        "images": thrown["images"],
        "renderer connections": ENDED * (thrown["raw poses"] + thrown["raw images"]),
        "http": thrown["huge http"],  # of the rest, what never ends a line is only cut off
        "udp": thrown["udp"] - unseen,
        "serial": 0.9 * thrown["serial"],  # some bytes pass for frames of unknown messages
    }
    return {name: (counted[name], count) for name, count in enough.items() if counted[name] < count}


def _counted(status: dict[str, Any]) -> dict[str, int]:
    faults, hall = status["faults"], status["renderers"]["hall"]["report"]["counters"]
    sources = {name: source["report"]["counters"] for name, source in status["sources"].items()}
    streams = [faults[f"stream/{name}"] for name in status["streams"]]
    return {
        "control": faults["control"]["malformed"],
        "control connections": faults["control"]["disconnected"],
        "data": sum(stream["malformed"] for stream in streams),
        "data connections": sum(stream["disconnected"] for stream in streams),
        "images": hall["malformed"],
        "renderer connections": hall["disconnected"],
        "http": faults["http"]["malformed"],
        "udp": sum(sources[name].get("malformed", 0) for name in ("motive_flight", "motive_actor")),
        "serial": sources["imu"].get("garbage_bytes", 0),
    }
