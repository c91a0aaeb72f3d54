"""The vehicle's one file among strangers.

Killed readers, other hosts, garbage, a Python with nothing of ours.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import sys
import time
from pathlib import Path

import cv2
import msgspec
import numpy as np
import pytest

from tests.support.common import ROOT, wait_until
from tests.support.programs import Program
from tests.support.puppet_bridge import PuppetBridge
from tests.support.stream_rig import SMALL, StreamRig, header, photo
from vil_bridge.client import Receiver
from vil_bridge.core.clock import NS_PER_MS, machine_ns, now_ns
from vil_bridge.outputs.stream import hub
from vil_bridge.outputs.stream.hub import StreamHub

pytestmark = pytest.mark.process


CHILD = """
import sys
from vil_bridge.client import Receiver
with Receiver(sys.argv[1], color="rgb", encoding="raw") as receiver:
    for frame in receiver:
        print(frame.frame_id, flush=True)
"""


def test_killed_clients_are_dropped_and_leave_no_memory_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    big = np.zeros((768, 1024, 3), np.uint8)
    clock_ns, sweeps, sweep = machine_ns(), 0, StreamHub._sweep

    def counted(of: StreamHub) -> None:
        nonlocal sweeps
        sweep(of)
        sweeps += 1

    monkeypatch.setattr(hub, "machine_ns", lambda: clock_ns)
    monkeypatch.setattr(StreamHub, "_sweep", counted)
    with StreamRig() as rig, rig.playing(big, 0.01):
        rss_kb = []
        for _ in range(4):
            with Program(sys.executable, "-c", CHILD, rig.endpoint) as child:
                child.await_text(r"\d+\n")
                child.kill()
            rss_kb.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        killed = rig.sink().subscribers
        assert len(killed) == 4, "the hub's clock stands"
        for of, silent_ns, left in ((min, 2900 * NS_PER_MS, 4), (max, 3100 * NS_PER_MS, 0)):
            clock_ns = of(reader.t_heard_ns for reader in killed) + silent_ns
            done = sweeps + 3
            wait_until(lambda done=done: sweeps >= done)  # type: ignore[misc]
            assert len(rig.sink().subscribers) == left
        assert rig.hub.counters["silent"] == 4
        assert rss_kb[-1] - rss_kb[0] < 4 * 2 * 2400 + 30_000


def test_a_bridge_on_another_host_brings_another_clock() -> None:
    with PuppetBridge() as bridge, Receiver(bridge.endpoint, timeout_s=5) as receiver:
        frame = bridge.show(receiver, now_ns())
        assert frame is not None
        for instance, ahead_ns in (("y", -1000 * 10**9), ("z", 5000 * 10**9)):
            bridge.instance, bridge.ahead_ns = instance, ahead_ns
            registrations = receiver.counters["registrations"]
            bridge.serve_until(
                lambda before=registrations: receiver.counters["registrations"] > before  # type: ignore[misc]
            )
            t_ns = now_ns()
            frame = bridge.show(receiver, t_ns + ahead_ns)
            assert frame is not None and frame.t_bridge_ns == t_ns + ahead_ns
            bridge.show_until_covered(receiver)


def test_a_repeated_picture_is_late_even_when_the_clock_mapping_moved_meanwhile() -> None:
    with PuppetBridge() as bridge, Receiver(bridge.endpoint) as receiver:
        t_ns = now_ns() + 9 * 10**8  # further ahead nothing is taken
        frame = bridge.show(receiver, t_ns)
        assert frame is not None

        def later() -> bool:
            bridge.ahead_ns -= (
                1_000_000  # the same bridge time becomes later and later in vehicle time
            )
            return receiver.clock_sync.to_vehicle_ns(t_ns) > frame.t_ns

        bridge.serve_until(later)
        assert bridge.show(receiver, t_ns) is None
        assert receiver.counters["late"] == 1


def _hostile_pictures() -> list[tuple[bytes, ...]]:
    size = {"width": 8, "height": 6}
    good = {**header(1).fields(), **size, "format": "rgb8", "encoding": "raw", "rows": "top_down"}

    def variant(payload: bytes = SMALL.tobytes(), **changes: object) -> tuple[bytes, bytes]:
        return msgspec.json.encode({**good, "t_display_ns": now_ns(), **changes}), payload

    jpeg = cv2.imencode(".jpg", np.zeros((6, 8), np.uint8))[1].tobytes()
    # As many pixels, another shape.
    other = cv2.imencode(".jpg", np.zeros((3, 16), np.uint8))[1].tobytes()
    huge = bytearray(jpeg)
    at = jpeg.index(b"\xff\xc0")
    huge[at + 5 : at + 9] = b"\xff\xff\xff\xff"  # claims 65535 x 65535
    as_jpeg: dict[str, object] = {"encoding": "jpeg", "format": "gray8"}
    text = msgspec.json.encode(good)
    rng = random.Random(2)
    return [
        (b"",),
        (b"", b"", b""),
        (b"null", b""),
        (b"[" * 60_000, b""),
        (b"{" + b" " * 70_000 + b"}", b""),
        *[(text[:i], SMALL.tobytes()) for i in range(0, len(text), 31)],
        *[(rng.randbytes(200), rng.randbytes(200)) for _ in range(20)],
        variant(payload=b""),
        variant(payload=SMALL.tobytes()[:-1]),
        variant(width=10**9, height=10**9),
        variant(width=-8, height=-6),
        variant(width="8"),
        variant(format="rgb64"),
        variant(frame_id=2.5),
        variant(t_display_ns=None),
        variant(K=[1, 2, 3]),
        variant(pose_rendered={"p_m": [1, 2], "q_xyzw": "x"}),
        variant(stamps_ns=[1]),
        variant(stamps_ns={"request": "soon"}),
        variant(compensation=7),
        *[variant(jpeg[:i], **as_jpeg) for i in range(0, len(jpeg), 23)],
        variant(bytes(huge), **as_jpeg, width=65535, height=65535),
        variant(bytes(huge), **as_jpeg),
        variant(other, **as_jpeg),
        variant(rng.randbytes(5000), **as_jpeg),
    ]


def test_garbage_from_the_bridge_is_counted_and_never_fatal() -> None:
    with PuppetBridge() as bridge, Receiver(bridge.endpoint) as receiver:
        bridge.serve_until(lambda: bridge.picture(b"not a picture"))
        for payload in (
            b"",
            b"null",
            b"[]",
            b"{}",
            os.urandom(500),
            b'{"type":"pong"}',
            b"[" * 10_000,
        ):
            bridge.control(payload)
        bridge.control(
            b'{"type":"pong","t1":1,"t2":1,"t3":1,"known":true,"in_flight":0,"instance":"y"}'
        )
        bridge.control(b'{"type":"registered","token":"you","data_port":99999,"camera":{}}')
        bridge.control(b'{"type":"result","id":"x"}')
        wait_until(lambda: receiver.counters["malformed"] >= 11)
        for parts in _hostile_pictures():
            handled = receiver.counters["received"]
            assert bridge.picture(*parts)
            wait_until(
                lambda handled=handled: receiver.counters["received"] > handled,  # type: ignore[misc]
            )
            assert receiver.next(0.005) is None, parts[0][:300]
            bridge.serve(time.monotonic() + 0.001)
        frame = bridge.show(receiver, now_ns())
        assert frame is not None and np.array_equal(frame.image, SMALL)


ALONE = """
import importlib.abc, sys
class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("cv2", "simplejpeg", "vil_bridge", "msgspec", "scipy", "PIL"):
            raise ImportError(name + " does not exist here")
sys.meta_path.insert(0, Refuse())
import client
sys.exit(client.main(sys.argv[1:]))
"""


def test_the_file_alone_receives_and_saves_with_numpy_and_pyzmq_only(tmp_path: Path) -> None:
    (tmp_path / "client.py").write_bytes((ROOT / "vil_bridge" / "client.py").read_bytes())
    (tmp_path / "alone.py").write_text(ALONE)
    words = ["alone.py", "--color", "rgb", "--save", "pictures", "--json", "summary.json"]
    with StreamRig() as rig, rig.playing(photo()):
        with Program(sys.executable, *words, rig.endpoint, cwd=tmp_path, split=True) as alone:
            alone.await_text("fps .*latency")
            assert alone.end(signal.SIGINT) == 0, alone.error_text()
        assert alone.error_text() == ""
    pictures = sorted((tmp_path / "pictures").iterdir())
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert len(pictures) == summary["frames"] > 0 and summary["latency_ms"]["p50"] > 0
    assert summary["problem"] == ""
    read = cv2.imread(str(pictures[0]))
    # Raw, since nothing decodes JPEG there.
    assert read is not None and np.array_equal(read[:, :, ::-1], photo())


def test_the_command_line_tells_why_nothing_comes(tmp_path: Path) -> None:
    summary = tmp_path / "summary.json"
    words = ["-m", "vil_bridge.client", "--camera", "top", "--json", summary]
    with StreamRig() as rig, Program(sys.executable, *words, rig.endpoint) as client:
        client.await_text(r"no pictures: no camera named 'top', known: \['front'\]")
        assert client.end(signal.SIGINT) == 1
    assert json.loads(summary.read_text())["problem"] == "no camera named 'top', known: ['front']"


def test_the_example_is_ten_lines_and_runs() -> None:
    example = ROOT / "examples" / "vio_client.py"
    lines = [
        line
        for line in example.read_text().splitlines()
        if line.strip() and not line.startswith(("#", '"""'))
    ]
    assert len(lines) <= 10
    with (
        StreamRig() as rig,
        rig.playing(photo(), variant="raw"),
        Program(sys.executable, example, rig.endpoint) as child,
    ):
        assert "480" in child.await_text(r".+\n")[0]
