"""Fuzzes the compiled kernel under the sanitizers.

``python -m tests.fuzz.sanitized_kernel --runs N``.

A program in C (``tests/fuzz/kernel_harness``) links the kernel's sources and calls each entry point
with changed seeds. A report of AddressSanitizer or UndefinedBehaviorSanitizer ends it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np

from tests.fuzz.natnet_frames import streams
from tests.fuzz.object_streams import object_streams
from tests.fuzz.vicon_frames import segment_frames
from vil_adapters.optitrack.compiled_frame import PoseRows
from vil_adapters.optitrack.fast_codec import decode_poses
from vil_adapters.vicon.blocks import GLOBAL_SEGMENTS, LIGHTWEIGHT_SEGMENTS
from vil_adapters.vicon.segments import LIGHT_ROW, ROW, decode_segments
from vil_adapters.vicon.udp_codec import decode_objects
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S
from vil_bridge.core.errors import ProtocolError
from vil_bridge.kernel.structs import VilClock
from vil_bridge.protocols.natnet.axes import pose_matrix
from vil_bridge.protocols.natnet.codec import SIZED_SINCE
from vil_bridge.protocols.vrpn.codec import TrackerPose, VrpnMessage, encode_message, encode_pose
from vil_bridge.world.twist_filter import first_gains, steady_gains

__all__ = ["ENTRIES", "PLANTED", "HarnessError", "Run", "build", "fuzz", "main"]

_HARNESS: Final = Path(__file__).with_name("kernel_harness")
_KERNEL: Final = Path(__file__).parents[2] / "vil_bridge" / "kernel"
_FLAGS: Final = ("-g", "-O1", "-std=c11", "-Wall", "-Wextra", "-ffp-contract=off")
_SANITIZERS: Final = "-fsanitize=address,undefined,float-cast-overflow"
_SEEDS: Final = 2000
PLANTED: Final = "planted"
"""Entry point with a defect, so that a test can show that the like of it is found."""

Seed = tuple[bytes, bytes]
"""Context, which stays, and input, which is changed."""


class HarnessError(Exception):
    """The program cannot be built here."""


@dataclass(frozen=True)
class Run:
    """Result of one entry point.

    Attributes:
        finding: the sanitizer's report, empty where there is none.
    """

    entry: str
    inputs: int
    seconds: float
    finding: str


# --- seeds ---------------------------------------------------------------------------------------


def _natnet_seeds() -> Iterator[Seed]:
    """Yield plain datagrams, each with a binding of its frame.

    Rows in any order, some below others, some empty.
    """
    rng = random.Random(5)
    for stream in streams(seed=5):
        for datagram in stream.datagrams:
            try:
                frame = decode_poses(datagram, stream.version)
            except ProtocolError:
                continue
            count = sum(
                map(
                    len,
                    (
                        frame.bodies,
                        *(a.bodies for a in frame.assets),
                        *(s.bones for s in frame.skeletons),
                    ),
                )
            )
            rows = [
                row if rng.random() < 0.8 else -1 for row in rng.sample(range(count + 3), count)
            ]
            parents = [rng.randrange(-1, row) if row else -1 for row in range(count + 3)]
            numbers = PoseRows(frame, rows, parents, pose_matrix(1.0, "y")).numbers
            sizes = [stream.version >= SIZED_SINCE, *map(len, numbers)]
            yield np.concatenate((sizes, *numbers), dtype=np.int32).tobytes(), datagram


def _error_state_seeds() -> Iterator[Seed]:
    """Yield a state at rest, its noise, a pose and two to twenty samples."""
    rng = np.random.default_rng(5)
    while True:
        state = np.zeros(29 + 25 * 25)
        state[3] = 1.0
        state[29:].reshape(25, 25)[np.diag_indices(25)] = 1e-3
        pose = np.array([*rng.normal(0.0, 0.1, 3), 0.0, 0.0, 0.0, 1.0, 0.01, 1e3, *[1e-4] * 6])
        numbers = np.concatenate((state, (1e-3, 1e-2, 0.0, 0.0), pose)).tobytes()
        samples = [
            struct.pack(
                "<Q6d", 4_000_000, *rng.normal(0.0, 0.1, 3), *rng.normal((0.0, 0.0, 9.8), 0.1)
            )
            for _ in range(rng.integers(2, 20))
        ]
        yield b"", numbers + b"".join(samples)


def _vicon_seeds() -> Iterator[Seed]:
    """Yield segments, each frame with a binding of its own rows.

    In any order, some below others, some empty.
    """
    rng = random.Random(5)
    for blocks in itertools.chain.from_iterable(segment_frames(seed=5)):
        light = LIGHTWEIGHT_SEGMENTS.type in blocks
        bodies = blocks[LIGHTWEIGHT_SEGMENTS.type if light else GLOBAL_SEGMENTS.type]
        try:
            table = decode_segments(bodies, LIGHT_ROW if light else ROW)
        except ProtocolError:
            continue
        slots = [
            row if rng.random() < 0.8 else -1
            for row in rng.sample(range(len(table) + 3), len(table))
        ]
        parents = [rng.randrange(-1, row) if row else -1 for row in range(len(table) + 3)]
        keys = np.stack((table["subject"], table["id"]), axis=-1).ravel().view(np.int32).tolist()
        context = np.array([light, len(table), len(parents), *keys, *slots, *parents], np.int32)
        yield (
            context.tobytes(),
            struct.pack(f"<{len(bodies) + 1}I", len(bodies), *map(len, bodies)) + b"".join(bodies),
        )


def _object_seeds() -> Iterator[Seed]:
    """Yield datagrams, each with rows of its own objects, some of them the same, some none."""
    rng = random.Random(5)
    for datagram in itertools.chain.from_iterable(object_streams(seed=5)):
        try:
            names = decode_objects(datagram).items["name"].copy()
        except ProtocolError:
            continue
        rows = [rng.randrange(-1, len(names) + 1) for _ in names]
        yield (
            np.array([len(names), len(names) + 1, *rows], np.int32).tobytes() + names.tobytes(),
            datagram,
        )


def _vrpn_seeds() -> Iterator[Seed]:
    """Yield poses of six bodies, of which one is not wanted, with equal, late, early and
    impossible stamps.
    """
    rng = random.Random(5)
    senders, sensors, rows = (3, 1, 4, 4, 5, 9), (0, 0, 0, 1, 0, 3), (0, 1, 2, 3, -1, 4)
    context = np.array([2, 5, len(rows), *senders, *sensors, *rows], np.int32).tobytes()
    while True:
        stream = b""
        for number in range(rng.randint(1, 4)):
            t_ns = rng.choice((number, number, -number, 10**6)) * 5 * NS_PER_MS + NS_PER_S
            for sender, sensor in zip(senders, sensors, strict=True):
                pose = TrackerPose(
                    sensor,
                    (rng.uniform(-5e3, 5e3), 0.0, 1.0),
                    (0.0, 0.6, 0.0, rng.choice((0.8, 0.0))),
                )
                stream += encode_message(VrpnMessage(2, sender, max(0, t_ns), encode_pose(pose)))
        yield context, stream


def _clock_seeds() -> Iterator[Seed]:
    """Yield a clock that has settled, and usual stamps of it, some of them late or early."""
    rng = np.random.default_rng(5)
    while True:
        t_ns, offset_ns = 10**12, int(rng.choice((0, 10**9, -(2**60), 2**61)))
        clock = VilClock(
            ready=1,
            oldest_ns=3600 * NS_PER_S,
            line_ref_ns=t_ns,
            line_offset_ns=offset_ns,
            line_drift=rng.normal(0.0, 1e-5),
            fit_ref_ns=t_ns,
            fit_offset_ns=offset_ns,
            fit_drift=rng.normal(0.0, 1e-5),
            most_over_ns=1e6,
            least_over_ns=-1e7,
            second_start_ns=t_ns,
            second_offset_ns=offset_ns,
        )
        stream = b""
        for number in range(rng.integers(1, 20)):
            arrival_ns = t_ns + int(number) * 5 * NS_PER_MS
            late_ns = int(rng.choice((10**5, 10**8, -(10**5))))
            stream += struct.pack(
                "<3q", arrival_ns + offset_ns - late_ns, arrival_ns, int(rng.choice((0, 10**6)))
            )
        yield b"", bytes(clock) + stream


def _tracks_seeds() -> Iterator[Seed]:
    """Yield up to forty frames of three bodies that turn and drift, with an instant to ask for
    in each.
    """
    rng = np.random.default_rng(5)
    context = np.concatenate((steady_gains().ravel(), first_gains().ravel())).tobytes()
    for _ in range(300):
        step_us, p_m, turned_rad = (
            int(rng.integers(1_000, 20_000)),
            rng.normal(0.0, 2.0, (3, 3)),
            0.0,
        )
        stream = b""
        for _ in range(rng.integers(1, 40)):
            p_m, turned_rad = p_m + rng.normal(0.0, 0.01, (3, 3)), turned_rad + 0.01
            q_xyzw = np.tile((0.0, 0.0, np.sin(turned_rad), np.cos(turned_rad)), (3, 1))
            poses = np.concatenate((p_m, q_xyzw), axis=1).tobytes()
            stream += (
                struct.pack("<2i4B", step_us, int(rng.integers(-300_000, 300_000)), 1, 1, 1, 0)
                + poses
            )
        yield context, stream


def _numbers_seeds() -> Iterator[Seed]:
    """Yield numbers of all sizes, and a text with eight gaps."""
    rng = np.random.default_rng(5)
    while True:
        numbers = rng.normal(0.0, 1.0, 8) * 10.0 ** rng.integers(-12, 12, 8)
        yield b"", numbers.tobytes() + b'{"position":[\1,\1,\1],"rotation":[\1,\1,\1,\1],"size":\1}'


def _rays_seeds() -> Iterator[Seed]:
    """Yield a sensor and up to thirty ends, some on borders of cells, some nearer than single
    precision can square.
    """
    rng = np.random.default_rng(5)
    while True:
        low, shape = 32768 + rng.integers(-30, 1, 3), rng.integers(0, 40, 3)
        resolution_m = float(rng.choice((0.1, 0.07, 2.0)))
        sensor = (
            rng.normal(0.0, 1.0, 3) if rng.random() < 0.7 else resolution_m * rng.integers(-3, 4, 3)
        )
        ends = sensor + rng.normal(0.0, 1.0, (rng.integers(1, 30), 3)) * 10.0 ** rng.integers(
            -45, 2
        )
        places = np.vstack((sensor, ends)).astype(np.float32)
        yield (
            np.concatenate((low, shape)).tobytes(),
            struct.pack("<d", resolution_m) + places.tobytes(),
        )


ENTRIES: Final[dict[str, Callable[[], Iterator[Seed]]]] = {
    "natnet": _natnet_seeds,
    "error-state": _error_state_seeds,
    "vicon": _vicon_seeds,
    "vicon-objects": _object_seeds,
    "vrpn": _vrpn_seeds,
    "clock": _clock_seeds,
    "tracks": _tracks_seeds,
    "numbers": _numbers_seeds,
    "rays": _rays_seeds,
    PLANTED: lambda: itertools.repeat((b"", b"\1abc")),
}
"""Entry points of ``harness.c`` and their seeds."""


# --- the program ---------------------------------------------------------------------------------


def build(program: Path, *options: str) -> None:
    """Compile the harness and the kernel with the sanitizers.

    Raises:
        HarnessError: there is no compiler, or no sanitizer.
    """
    compiler = shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise HarnessError("no C compiler: apt-get install gcc libc6-dev")
    sources = [str(path) for folder in (_HARNESS, _KERNEL) for path in sorted(folder.glob("*.c"))]
    command = [
        compiler,
        *_FLAGS,
        _SANITIZERS,
        "-fno-sanitize-recover=all",
        f"-I{_KERNEL}",
        *options,
    ]
    done = subprocess.run(
        [*command, *sources, "-o", str(program), "-lm"], capture_output=True, text=True, check=False
    )
    if done.returncode and "cannot find" in done.stderr:
        raise HarnessError("no sanitizers: apt-get install libasan8 libubsan1")
    if done.returncode:
        raise RuntimeError(done.stderr)


def fuzz(program: Path, entry: str, runs: int, seed: int, out: Path) -> Run:
    """Call an entry point ``runs`` times; the input of a finding is ``out/crash-ENTRY``."""
    seeds = out / f"seeds-{entry}"
    blobs = itertools.chain.from_iterable(itertools.islice(ENTRIES[entry](), _SEEDS))
    seeds.write_bytes(b"".join(struct.pack("<I", len(blob)) + blob for blob in blobs))
    command = [str(program), entry, str(seeds), str(runs), str(seed), str(out / f"crash-{entry}")]
    begun_s = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return Run(entry, runs, time.monotonic() - begun_s, done.stderr if done.returncode else "")


def main(argv: list[str] | None = None) -> int:
    """Fuzz all entry points in equal parts; 1 when there is a finding."""
    parser = argparse.ArgumentParser(description="Fuzz the compiled kernel under the sanitizers.")
    parser.add_argument(
        "--runs", type=int, default=10_000_000, help="inputs of all entry points together"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--out", type=Path, default=Path("out/fuzz/kernel"), help="seeds, program, findings"
    )
    args = parser.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    program = args.out / "harness"
    try:
        build(program)
    except HarnessError as exc:
        print(f"nothing is fuzzed: {exc}")
        return 0
    found = False
    entries = [entry for entry in ENTRIES if entry != PLANTED]
    for entry in entries:
        run = fuzz(program, entry, args.runs // len(entries), args.seed, args.out)
        print(json.dumps(asdict(run)), flush=True)
        found |= bool(run.finding)
    return int(found)


if __name__ == "__main__":
    sys.exit(main())
