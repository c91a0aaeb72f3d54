"""The receiver in C against a live stream.

Compiled with every warning and with sanitizers, then fed well and badly.
"""

from __future__ import annotations

import itertools
import json
import queue
import random
import subprocess
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zmq

from tests.support.c_programs import CHECKED, FOLDER, compile_c
from tests.support.common import PATIENCE_S, wait_until
from tests.support.programs import Program
from tests.support.stream_rig import StreamRig, header
from vil_bridge.client import ClockSync
from vil_bridge.core.types import ImageArray

pytestmark = pytest.mark.process


SIZE_PX = (46, 30)  # width, height


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c(
        FOLDER / "print_frames.c", tmp_path_factory.mktemp("c") / "frames", "-std=c99", *CHECKED
    )


class Reader(Program):
    """A running receiver."""

    def __init__(self, program: Path, endpoint: str, frames: int) -> None:
        super().__init__(program, endpoint, "front", "compensated", frames, split=True)

    @property
    def lines(self) -> list[str]:
        """All whole lines that it wrote so far."""
        return [line for line in self.text().splitlines(keepends=True) if line.endswith("\n")]

    def finish(self) -> str:
        """The last line that it wrote to stderr; it must have ended by itself and well."""
        assert self.wait(PATIENCE_S) == 0, self.error_text()
        return self.error_text().splitlines(keepends=True)[-1]


def picture(frame_id: int) -> ImageArray:
    """Gray in three channels, another for every frame; every other one upside down in memory."""
    gray = (
        np.arange(SIZE_PX[0] * SIZE_PX[1]).reshape(SIZE_PX[::-1]) * (frame_id % 13 + 1) + frame_id
    ).astype(np.uint8)
    rgb = np.repeat(gray[:, :, None], 3, axis=2)
    return rgb if frame_id % 2 else np.ascontiguousarray(rgb[::-1])[::-1]


def sum_of(frame_id: int) -> str:
    return f"{zlib.adler32(np.ascontiguousarray(picture(frame_id)[:, :, 0]).tobytes()):08x}"


@contextmanager
def filming(
    rig: StreamRig, first_id: int = 1, age_ns: int = 0, **changes: Any
) -> Iterator[dict[int, int]]:
    """Offers pictures until the end; their display times by id."""
    over, shown = threading.Event(), dict[int, int]()

    def film() -> None:
        frame_id = first_id
        while not over.wait(0.01):
            head = header(frame_id, **changes)
            head.t_display_ns -= age_ns
            shown[frame_id] = head.t_display_ns
            rig.offer(picture(frame_id), head)
            frame_id += 1

    thread = threading.Thread(target=film)
    thread.start()
    try:
        yield shown
    finally:
        over.set()
        thread.join()


def check(lines: list[str], shown: dict[int, int]) -> None:
    """In order, strictly increasing, right pixels, right instants.

    Both ends share this computer's clock.
    """
    ids, stamps = [], []
    for line in lines:
        words = line.split()
        ids.append(int(words[0]))
        stamps.append(int(words[2]))
        assert words[5] == f"{SIZE_PX[0]}x{SIZE_PX[1]}" and words[7] == "457.000"
        assert words[9:12] == ["1.0000", "2.0000", "3.0000"]
        assert words[-1] == sum_of(ids[-1])
        assert abs(stamps[-1] - shown[ids[-1]]) <= int(words[4]) + 1_000_000
    assert ids == sorted(set(ids)) and stamps == sorted(set(stamps))


def test_it_compiles_as_c_and_as_cpp(tmp_path: Path) -> None:
    for options in (("-std=gnu17", "-O2"), ("-std=c++11", "-O2", "-x", "c++")):
        compile_c(FOLDER / "print_frames.c", tmp_path / "frames", *options)


def test_fifty_frames_in_order_with_the_right_pixels(program: Path) -> None:
    with StreamRig() as rig, filming(rig) as shown, Reader(program, rig.endpoint, 50) as reader:
        counts = reader.finish()
        assert len(reader.lines) == 50
        check(reader.lines, shown)
        assert "late 0 malformed 0 registrations " in counts
        # Acknowledged, with times in bridge time.
        assert {camera for camera, _, _ in rig.received} == {"front"}
        assert not rig.hub.counters["odd_stamp"]


def test_the_dead_mans_signal(program: Path) -> None:
    """Black pictures, and pictures of 0.4 s ago, come as fast as others and are not taken for
    life.
    """
    cases: list[tuple[str, dict[str, Any]]] = [
        ("alive 1", {}),
        ("alive 0", {"blank": True}),
        ("alive 1", {}),
        ("alive 0", {"age_ns": 400_000_000}),
    ]
    with StreamRig() as rig, Reader(program, rig.endpoint, 0) as reader:
        for case, (said, changes) in enumerate(cases):
            with filming(rig, 10_000 * (case + 1), **changes):
                wait_until(
                    lambda said=said: reader.lines and said in reader.lines[-1],  # type: ignore[misc]
                )


def test_it_registers_again_after_a_restart(program: Path) -> None:
    with StreamRig() as first:
        endpoint = first.endpoint
        reader = Reader(program, endpoint, 60)
        with filming(first) as shown:
            wait_until(lambda: len(reader.lines) >= 10)
    try:
        with StreamRig(bind=endpoint) as second, filming(second, 1000) as shown_again:
            counts = reader.finish()
    finally:
        reader.kill()
    assert "malformed 0 " in counts and int(counts.rpartition(" ")[2]) >= 2
    assert int(reader.lines[-1].split()[0]) > 1000
    check(reader.lines, {**shown, **shown_again})


# --- a bridge written by hand, to send what the real one never would ------------------------------


class HandMadeBridge:
    """Answers pings and registrations.

    Sends to the data socket what it is told, once a reader is there.
    """

    def __init__(self) -> None:
        self._context = zmq.Context()
        self.control, self.data = (self._context.socket(zmq.ROUTER) for _ in range(2))
        self.data.setsockopt(zmq.SNDHWM, 10_000)
        self.port = self.data.bind_to_random_port("tcp://127.0.0.1")
        self.endpoint = f"tcp://127.0.0.1:{self.control.bind_to_random_port('tcp://127.0.0.1')}"
        self.credits: list[int] = []
        self.registrations = 0
        self.too_old = -1  # as the reader said last
        self.pong: dict[str, Any] = {}
        self._identity = b""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._jobs: queue.SimpleQueue[tuple[zmq.Socket[bytes], list[bytes]]] = queue.SimpleQueue()
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                if self.control.poll(5):
                    self._identity, text = self.control.recv_multipart()
                    self._answer(json.loads(text))
                while not self._jobs.empty():
                    socket, parts = self._jobs.get()
                    socket.send_multipart(
                        [b"token" if socket is self.data else self._identity, *parts]
                    )
        finally:
            self._context.destroy(linger=0)

    def _answer(self, message: dict[str, Any]) -> None:
        now = time.monotonic_ns()
        if message["type"] == "credit":
            self.credits.append(message["frame_id"])
            return
        self.too_old = message.get("too_old", self.too_old)
        answer: dict[str, Any] = {"type": "pong", "t1": message.get("t1"), "t2": now, "t3": now}
        answer |= {"known": True, "in_flight": 0, "instance": "hand", **self.pong}
        if message["type"] == "register":
            self.registrations += 1
            answer = {
                "type": "registered",
                "token": "token",
                "data_port": self.port,
                "camera": {"name": "front"},
            }
        self.control.send_multipart([self._identity, json.dumps(answer).encode()])

    def say(self, text: bytes) -> None:
        self._jobs.put((self.control, [text]))

    def show(self, *parts: bytes) -> None:
        self._jobs.put((self.data, list(parts)))

    def close(self) -> None:
        self._over.set()
        self._thread.join()


def good(frame_id: Any, **changes: Any) -> bytes:
    head = header(
        frame_id,
        width=SIZE_PX[0],
        height=SIZE_PX[1],
        format="gray8",
        encoding="raw",
        rows="top_down",
    )
    return json.dumps({**head.fields(), **changes}).encode()


PIXELS = np.ascontiguousarray(picture(1)[:, :, 0]).tobytes()
WRONG_PICTURES: list[tuple[bytes, ...]] = [
    (b"", PIXELS),
    (b"{", PIXELS),
    (b"{}", PIXELS),
    (b"[" * 60_000, PIXELS),
    (b'{"a":' * 10_000, PIXELS),
    (b"x" * 70_000, PIXELS),
    (good(1),),
    (good(1), PIXELS, b"third"),
    (good(1), PIXELS[:-1]),
    (good(1), b""),
    (good(1)[:-20] + b"\x00\xff\\", PIXELS),
    (good(1, width=1 << 40, height=1 << 40), PIXELS),
    (good(1, width=0), PIXELS),
    (good(1, width=-46, height=-30), PIXELS),
    (good(1, format="rgb8"), PIXELS),
    (good(1, encoding="jpeg"), PIXELS),
    (good(1 << 70), PIXELS),
    (good(1.5), PIXELS),
    (good(1, t_display_ns="now"), PIXELS),
    (good(1, t_display_ns=time.monotonic_ns() + 10**15), PIXELS),  # days after the import
    (good(1, t_display_ns=None), PIXELS),
    (good(1, t_expires_ns="soon"), PIXELS),
]
WRONG_WORDS = [
    *(
        b"",
        b"{}",
        b"nonsense",
        b'{"type":"pong"}',
        b'{"type":"pong","t1":1,"t2":2,"t3":3}',
        b'{"type":"registered"}',
    ),
    b'{"type":"registered","token":"t","data_port":99999}',
    b'{"type":"registered","token":"' + b"t" * 5000 + b'","data_port":5}',
    b'{"type":"pong","t1":12345,"t2":9223372036854775807,"t3":-9223372036854775808,'
    b'"in_flight":0,"instance":"hand"}',
]


@pytest.fixture
def bridge() -> Iterator[HandMadeBridge]:
    made = HandMadeBridge()
    yield made
    made.close()


def registered(bridge: HandMadeBridge, reader: Reader) -> None:
    """Wait until the reader's data connection stands: a first picture is printed."""
    ids = itertools.count(1)

    def shown() -> bool:
        bridge.show(good(next(ids)), PIXELS)
        return bool(reader.lines)

    wait_until(shown, 20.0, period_s=0.1)


def test_what_is_wrong_is_counted_and_survived(program: Path, bridge: HandMadeBridge) -> None:
    with Reader(program, bridge.endpoint, 0) as reader:
        registered(bridge, reader)
        for parts in WRONG_PICTURES:
            bridge.show(*parts)
        for text in WRONG_WORDS:
            bridge.say(text)
        bridge.show(
            good(900, K=[1, 2, 3], pose_display={"p_m": [1, 2, 1e999], "q_xyzw": "?"}), PIXELS
        )
        wait_until(lambda: reader.lines[-1].startswith("900 "))
        assert "fx 0.000 p_m" in reader.lines[-1]
        before, bridge.pong = bridge.registrations, {"known": False}
        wait_until(lambda: bridge.registrations > before)  # it has read an answer behind the words
        reader.terminate()
        assert (
            f" malformed {len(WRONG_PICTURES) + len(WRONG_WORDS)} registrations " in reader.finish()
        )


def test_what_is_too_old_is_counted_told_and_not_handed_out(
    program: Path, bridge: HandMadeBridge
) -> None:
    with Reader(program, bridge.endpoint, 0) as reader:
        registered(bridge, reader)
        now_ns = time.monotonic_ns()
        for frame_id in range(901, 904):
            bridge.show(good(frame_id, t_expires_ns=now_ns - 10**9), PIXELS)
        wait_until(lambda: bridge.too_old == 3)
        wait_until(
            lambda: (
                "\npictures arrive older than the camera's max_age_ms" in f"\n{reader.error_text()}"
            )
        )
        bridge.show(good(910, t_expires_ns=now_ns + 10**12), PIXELS)
        wait_until(lambda: reader.lines[-1].startswith("910 "))
        assert not [line for line in reader.lines if line.startswith("90")]
        reader.terminate()
        assert " too_old 3 late 0 malformed 0 " in reader.finish()


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        ("camera front: no renderer", "camera front: no renderer"),
        ('camera "front": none', "the bridge has a problem; its status has the text"),
        ("x" * 600, "the bridge has a problem; its status has the text"),
    ],
)
def test_a_problem_of_the_bridge_is_said(
    problem: str, said: str, program: Path, bridge: HandMadeBridge
) -> None:
    bridge.pong = {"problem": problem}
    with Reader(program, bridge.endpoint, 0) as reader:
        registered(bridge, reader)
        wait_until(lambda: f"{said}\n" in reader.error_text(), 30.0, reader.error_text)
        reader.terminate()
        reader.finish()


def test_damaged_headers_never_break_it(program: Path, bridge: HandMadeBridge) -> None:
    """A thousand headers with bytes changed, lost and doubled, under the sanitizers' eyes."""
    rng = random.Random(1)
    with Reader(program, bridge.endpoint, 0) as reader:
        registered(bridge, reader)
        for i in range(1000):
            text = bytearray(good(i, camera='front \\ " ü'))
            for _ in range(rng.randint(1, 6)):
                at = rng.randrange(len(text))
                change = rng.randrange(3)
                text[at : at + (change != 2)] = rng.randbytes(1) if change else b""
            bridge.show(bytes(text[: rng.randint(1, 2 * len(text))]), PIXELS)
        wait_until(lambda: bridge.credits and bridge.credits[-1] > 900)

        def recovered() -> bool:  # once damaged stamps of the near future have passed
            bridge.show(good(5000), PIXELS)
            return reader.lines[-1].startswith("5000 ")

        wait_until(recovered, 20.0, period_s=0.1)
        assert reader.lines[-1].split()[-1] == sum_of(1)
        reader.terminate()
        reader.finish()


FROZEN = """
#include "vil_receiver.h"
static vil_receiver receiver;
int main(int count, char **pongs) {
    receiver.token[0] = 'x';
    for (int i = 1; i < count; i++) {
        receiver.pings[0] = receiver.t_usable_ns = receiver.t_register_ns = vil_now_ns();
        char pong[300];
        snprintf(pong, sizeof pong, "{\\"t1\\":%" PRId64 ",\\"t2\\":1,\\"t3\\":1,\\"in_flight\\":0,"
                 "\\"instance\\":\\"\\",\\"known\\":true%s}", receiver.pings[0], pongs[i]);
        if (vil__on_pong(&receiver, vil__span(pong, pong + strlen(pong)), vil_now_ns())) return 1;
        printf("%d", vil_alive(&receiver, 1000000));
    }
    return 0;
}
"""


def test_what_is_frozen_ends_the_signal_at_once(tmp_path: Path) -> None:
    source = tmp_path / "frozen.c"
    source.write_text(FROZEN)
    program = compile_c(source, tmp_path / "frozen", "-std=c99", *CHECKED)
    pongs = ["", ',"frozen":true', ',"frozen":false', ',"problem":"no renderer"']
    done = subprocess.run([program, *pongs], capture_output=True, text=True, check=True)
    assert done.stdout == "1011"


CLOCK = """
#include "vil_receiver.h"
static vil_clock clock_line;
int main(void) {
    int64_t t1, t2, t3, t4, at;
    while (scanf("%" SCNd64 "%" SCNd64 "%" SCNd64 "%" SCNd64 "%" SCNd64, &t1, &t2, &t3, &t4,
        &at) == 5) {
        vil_clock_add(&clock_line, t1, t2, t3, t4);
        printf("%" PRId64 " %" PRId64 " %" PRId64 " %d %d\\n",
            vil_clock_to_vehicle_ns(&clock_line, at),
               vil_clock_to_bridge_ns(&clock_line, at), vil_clock_uncertainty_ns(&clock_line, at),
               clock_line.epoch, clock_line.count);
    }
    return 0;
}
"""


def test_its_clock_is_the_one_of_the_client_in_python(tmp_path: Path) -> None:
    source = tmp_path / "clock.c"
    source.write_text(CLOCK)
    program = compile_c(source, tmp_path / "clock", "-std=c99", *CHECKED)
    rng, sync, lines, expected = np.random.default_rng(1), ClockSync(), [], []
    # 25 ppm of drift, a slew, slow answers, two jumps of the bridge's clock and a pause.
    for i in range(1600):
        t0 = 10_000_000_000 + i * 60_000_000 + (3600 * 10**9 if i > 1400 else 0)
        jump = (7_000_000_000 if i > 1000 else 0) + (3_000_000 if i > 1200 else 0)
        slewed = 5e-4 * 60_000_000 * min(max(0, i - 400), 300)
        go, back = (100_000 + rng.exponential(2_000_000 if i < 1000 else 30_000) for _ in range(2))
        t2 = round((t0 + go) * (1 + 25e-6) + slewed) + jump
        exchange = t0, t2, t2 + 20_000, round(t0 + go + 20_000 + back)
        sync.add(*exchange)
        at = t2 + 40_000_000
        lines.append(" ".join(str(t) for t in (*exchange, at)))
        expected.append(
            (
                sync.to_vehicle_ns(at),
                sync.to_bridge_ns(at),
                sync.uncertainty_ns(at),
                sync.epoch,
                len(sync),
            )
        )
    done = subprocess.run(
        [program], input="\n".join(lines), capture_output=True, text=True, check=True
    )
    found = np.array([line.split() for line in done.stdout.splitlines()], dtype=np.int64)
    assert found.shape == (1600, 5) and found[-1, 3] == 2
    assert np.abs(found - np.array(expected)).max() <= 2
