"""Compiled kernel and twin on the same generated frames: ``python -m tests.fuzz.kernel_against_twin --frames N``."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tests.fuzz.natnet_frames import Stream, streams
from vil_adapters.optitrack.compiled_frame import PackedFrame, StreamedFrame, read_frame
from vil_adapters.optitrack.convert import NatNetConverter
from vil_adapters.optitrack.fast_codec import decode_poses
from vil_adapters.optitrack.frame import NatNetFrame
from vil_bridge.core.errors import ProtocolError
from vil_bridge.core.types import SkeletonFrame, SourceFrame
from vil_bridge.world.kernel.library import ABSENT, KERNEL

__all__ = ["Agreement", "compare", "compare_streams", "main"]

_TOLERANCE: Final = 1e-12


@dataclass
class Agreement:
    """Frames that were compared, and how they were read.

    Attributes:
        compiled: by the kernel. decoded: by the twin only. refused: by both, with the same error.
        worst: largest difference of a number of a pose.
    """

    frames: int = 0
    compiled: int = 0
    decoded: int = 0
    refused: int = 0
    worst: float = 0.0


def compare(datagram: bytes, stream: Stream, kernel: NatNetConverter, twin: NatNetConverter, on: Agreement) -> None:
    """Read and convert one datagram in both ways.

    Raises:
        AssertionError: they differ.
    """
    on.frames += 1
    frame, expected = _read(read_frame, datagram, stream), _read(decode_poses, datagram, stream)
    if isinstance(frame, str) or isinstance(expected, str):
        assert frame == expected
        on.refused += 1
        return
    on.compiled += isinstance(frame, PackedFrame)
    on.decoded += isinstance(frame, NatNetFrame)
    assert (frame.number, repr(frame.suffix), frame.unread) == (
        *(expected.number, repr(expected.suffix), expected.unread),
    )
    _compare_converted(kernel.frame(frame, 5), twin.frame(expected, 5), on)
    assert _state(kernel) == _state(twin)


def _read(read: Any, datagram: bytes, stream: Stream) -> StreamedFrame | str:
    try:
        frame: StreamedFrame = read(datagram, stream.version)
    except ProtocolError as exc:
        return str(exc)
    return frame


def _state(converter: NatNetConverter) -> tuple[object, ...]:
    return converter.unknown, converter.nonfinite, converter.implausible, converter.skeleton_coordinates


def _compare_converted(found: SourceFrame, expected: SourceFrame, on: Agreement) -> None:
    for name in ("source", "frame_number", "t_foreign_ns", "t_arrival_ns", "subjects", "latency_ns", "markers"):
        assert getattr(found, name) == getattr(expected, name), name
    assert [s.model.name for s in found.skeletons] == [s.model.name for s in expected.skeletons]
    blocks: list[SourceFrame | SkeletonFrame] = [found, *found.skeletons]
    twins: list[SourceFrame | SkeletonFrame] = [expected, *expected.skeletons]
    for ours, theirs in zip(blocks, twins, strict=True):
        assert ours.tracked.tolist() == theirs.tracked.tolist()
        for pose, twin in ((ours.p_m, theirs.p_m), (ours.q_xyzw, theirs.q_xyzw)):
            assert pose.shape == twin.shape
            difference = float((np.abs(pose - twin) / np.maximum(1.0, np.abs(twin))).max(initial=0.0))
            assert difference <= _TOLERANCE, difference  # NaN fails
            on.worst = max(on.worst, difference)


def compare_streams(frames: int, seed: int) -> Agreement:
    """Compare at least so many frames of generated streams."""
    on = Agreement()
    for stream in streams(seed):
        kernel, twin = stream.converter(), stream.converter()
        for datagram in stream.datagrams:
            compare(datagram, stream, kernel, twin, on)
        if on.frames >= frames:
            break
    return on


def main(argv: list[str] | None = None) -> int:
    """Compare and print; where the kernel is absent there is nothing to compare."""
    parser = argparse.ArgumentParser(description="Compare the compiled kernel with its twin on generated frames.")
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(argv)
    if KERNEL is None:
        print(f"nothing is compared: {ABSENT}")
        return 0
    print(json.dumps(vars(compare_streams(args.frames, args.seed))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
