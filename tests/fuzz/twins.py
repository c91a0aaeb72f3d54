"""Agreement of the compiled kernel with its twin on frames of a source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from vil_bridge.core.types import FloatArray, SkeletonFrame, SourceFrame

__all__ = ["Agreement", "compare_frames"]

_TOLERANCE: Final = 1e-12


@dataclass
class Agreement:
    """Frames that were compared, and how they were read.

    Attributes:
        compiled: by the kernel. decoded: by the twin only. refused: by both, with the same error.
        worst: largest difference of a number, as a share of the largest of its frame or skeleton
            where that is above 1: bones that hang on each other 10 km away come near the origin
            with what 10 km are rounded to.
    """

    frames: int = 0
    compiled: int = 0
    decoded: int = 0
    refused: int = 0
    worst: float = 0.0


def compare_frames(found: SourceFrame, expected: SourceFrame, on: Agreement) -> None:
    """Compare all of two frames.

    Raises:
        AssertionError: they differ.
    """
    for name in (
        "source",
        "frame_number",
        "t_foreign_ns",
        "t_arrival_ns",
        "subjects",
        "latency_ns",
        "markers",
    ):
        assert getattr(found, name) == getattr(expected, name), name
    assert [s.model.name for s in found.skeletons] == [s.model.name for s in expected.skeletons]
    blocks: list[SourceFrame | SkeletonFrame] = [found, *found.skeletons]
    twins: list[SourceFrame | SkeletonFrame] = [expected, *expected.skeletons]
    for ours, theirs in zip(blocks, twins, strict=True):
        assert ours.tracked.tolist() == theirs.tracked.tolist()
        _compare(ours.p_m, theirs.p_m, on)
        _compare(ours.q_xyzw * _signs(ours.q_xyzw, theirs.q_xyzw), theirs.q_xyzw, on)


def _signs(q_xyzw: FloatArray, twin_xyzw: FloatArray) -> FloatArray:
    """Return the signs that bring quaternions to the side of others.

    Q and -q are the same attitude.
    """
    return np.asarray(np.where((q_xyzw * twin_xyzw).sum(axis=1, keepdims=True) < 0.0, -1.0, 1.0))


def _compare(numbers: FloatArray, twin: FloatArray, on: Agreement) -> None:
    assert numbers.shape == twin.shape
    difference = float(np.abs(numbers - twin).max(initial=0.0) / np.abs(twin).max(initial=1.0))
    assert difference <= _TOLERANCE, difference  # NaN fails
    on.worst = max(on.worst, difference)
