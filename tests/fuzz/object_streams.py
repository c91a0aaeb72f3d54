"""Generator of Tracker's UDP object stream for the comparison of the compiled kernel with its
twin.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator

__all__ = ["object_streams"]

_NAMES = (b"a", b"b", b"drone", b"x" * 24, b"\xff\xfe", b"a\0b", b"", "ü".encode())
_ODD = (
    0.0,
    -0.0,
    float("nan"),
    float("inf"),
    float("-inf"),
    1e300,
    1e7,
    1e7 + 1e-6,
    99.9,
    100.0,
    -100.0,
    1e-320,
)


def object_streams(seed: int, *, length: int = 20) -> Iterator[list[bytes]]:
    """Yield datagrams of one server after another, the same for the same seed.

    Some are malformed.
    """
    rng = random.Random(seed)
    while True:
        names = rng.choices(_NAMES, k=rng.randint(0, 6))
        poses: dict[bytes, list[float]] = {}
        datagrams = []
        for number in range(length):
            if rng.random() < 0.1:
                names = rng.choices(_NAMES, k=rng.randint(0, 6))
            datagrams.append(_datagram(rng, number, names, poses))
        yield datagrams


def _datagram(
    rng: random.Random, number: int, names: list[bytes], poses: dict[bytes, list[float]]
) -> bytes:
    """Return a datagram.

    Rarely with items of another kind, larger ones, padding, another count, or cut.
    """
    items = []
    for name in names:
        if name not in poses or rng.random() < (0.1 if name == b"b" else 0.8):
            poses[name] = [rng.uniform(-3000.0, 3000.0) for _ in range(3)] + [
                rng.uniform(-3.2, 3.2) for _ in range(3)
            ]
            if rng.random() < 0.05:
                poses[name][rng.randrange(6)] = rng.choice(_ODD)
        body = (
            name.ljust(24, b"\0")
            + struct.pack("<6d", *poses[name])
            + bytes(rng.choice((0, 0, 0, 0, 8)))
        )
        items.append(struct.pack("<BH", 0, len(body)) + body)
        if rng.random() < 0.03:
            items.append(struct.pack("<BH", rng.randint(1, 255), 5) + b"other")
    count = len(items) if rng.random() < 0.98 else rng.randrange(9)
    data = struct.pack("<IB", number, count) + b"".join(items) + bytes(rng.choice((0, 0, 100)))
    return data if rng.random() < 0.97 else data[: rng.randrange(len(data))]
