"""Generator of Vicon descriptions and segments for the comparison of the compiled kernel with
its twin.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from vil_adapters.vicon.blocks import (
    APPLICATION_INFO,
    GLOBAL_SEGMENTS,
    LIGHTWEIGHT_SEGMENTS,
    SUBJECT_INFO,
    SubjectInfo,
    ViconSegment,
)
from vil_adapters.vicon.codec import Block, Blocks
from vil_bridge.core.geometry import q_normalize, q_to_matrix

__all__ = ["segment_frames"]

_HEADER_BYTES = 8
_ODD = (
    0.0,
    float("nan"),
    float("inf"),
    float("-inf"),
    1e308,
    1e38,
    -1e38,
    1e7,
    1e7 + 1e-6,
    1e-45,
    1e5,
)


def segment_frames(seed: int, *, length: int = 20) -> Iterator[list[Blocks]]:
    """Yield the blocks of frames of one server after another, the same for the same seed.

    Some are malformed.
    """
    rng = random.Random(seed)
    while True:
        subjects = [_subject(rng, i) for i in rng.sample(range(20), rng.randint(0, 6))]
        statics = {SUBJECT_INFO.type: [_body(SUBJECT_INFO, subject) for subject in subjects]}
        statics[APPLICATION_INFO.type] = [_body(APPLICATION_INFO, rng.randint(0, 1))]
        light = rng.random() < 0.5
        kind = LIGHTWEIGHT_SEGMENTS.type if light else GLOBAL_SEGMENTS.type
        shown = _shown(rng, subjects)
        frames: list[Blocks] = []
        for _ in range(length):
            if rng.random() < 0.2:
                shown = _shown(rng, subjects)
            frames.append(
                {**statics, kind: [_segments(rng, *subject, light=light) for subject in shown]}
            )
        yield frames


def _body(block: Block[Any], value: object) -> bytes:
    return block.encode(value)[_HEADER_BYTES:]


def _subject(rng: random.Random, identity: int) -> SubjectInfo:
    """Return an object, or a person whose hierarchy may be impossible."""
    count = rng.choice((1, 1, 1, 0, 2, 5))
    parents = [i if rng.random() < 0.8 else rng.randint(0, count) for i in range(count)]
    segments = [ViconSegment(parents[i], i + 1, (0.0,) * 6, f"s{i}") for i in range(count)]
    return SubjectInfo(identity, rng.choice("abcdef"), tuple(segments))


def _shown(rng: random.Random, subjects: list[SubjectInfo]) -> list[tuple[int, list[int]]]:
    """Return the segments that frames hold: most of those described, some unknown, some twice."""
    shown = [(s.id, [segment.id for segment in s.segments if rng.random() < 0.9]) for s in subjects]
    if rng.random() < 0.2:
        shown.append((77, [1]))
    if shown and rng.random() < 0.2:
        shown.append(rng.choice(shown))
    rng.shuffle(shown)
    return shown


def _segments(rng: random.Random, subject: int, ids: list[int], *, light: bool) -> bytes:
    """Return the body of a block; rarely with other numbers, with bytes behind it, or cut."""
    body = struct.pack("<II", subject, len(ids)) + b"".join(
        _segment(rng, i, light=light) for i in ids
    )
    match rng.random():
        case x if x < 0.02:
            return body[: rng.randrange(len(body))]
        case x if x < 0.05:
            return body + rng.randbytes(rng.randint(1, 120))
        case x if x < 0.07:
            return struct.pack("<II", subject, rng.choice((0, 1, 2, 2**32 - 1))) + body[8:]
    return body


def _segment(rng: random.Random, identity: int, *, light: bool) -> bytes:
    p = [rng.uniform(-3000.0, 3000.0) for _ in range(3)]
    if light:
        turn = [rng.gauss(0.0, 1.0) for _ in range(3)]
    else:
        q = q_normalize(
            np.array([rng.choice((0.0, 1.0, -1.0, rng.gauss(0.0, 1.0))) for _ in range(4)])
        )
        turn = q_to_matrix(q).ravel().tolist()
    numbers = [*p, *turn]
    if rng.random() < 0.05:
        numbers[rng.randrange(len(numbers))] = rng.choice(_ODD)
    layout = "<I6f" if light else "<I12d"
    with np.errstate(over="ignore"):
        return struct.pack(
            layout, identity, *(np.array(numbers, np.float32).tolist() if light else numbers)
        )
