"""Compiled tracks and their twin on the same frames.

``python -m tests.fuzz.tracks_against_twin --frames N``.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

import numpy as np

from tests.support.track_pairs import HOSTILITIES, fly_both
from vil_bridge.core.geometry import Transform, q_normalize
from vil_bridge.kernel.library import ABSENT, KERNEL

__all__ = ["main"]


def main(argv: list[str] | None = None) -> int:
    """Compare and print; where the kernel is absent there is nothing to compare."""
    parser = argparse.ArgumentParser(
        description="Compare the compiled tracks with their twin on generated frames."
    )
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(argv)
    if KERNEL is None:
        print(f"nothing is compared: {ABSENT}")
        return 0
    rng, frames, begun_s = np.random.default_rng(args.seed), 0, time.monotonic()
    while frames < args.frames:
        markers = Transform(0.1 * rng.standard_normal(3), q_normalize(rng.standard_normal(4)))
        hostility, step_ms = (
            HOSTILITIES[rng.integers(len(HOSTILITIES))],
            float(rng.choice((1.0, 4.0, 10.0, 33.0))),
        )
        frames += fly_both(
            int(rng.integers(2**32)), hostility, markers, step_ms, int(rng.integers(1, 60)), 1000
        )
    print(json.dumps({"frames": frames, "seconds": time.monotonic() - begun_s}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
