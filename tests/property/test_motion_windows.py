"""However an emulator slices time, it gets the same samples."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from vil_adapters.motions.drone import DroneMotion

S = 1_000_000_000


@given(st.lists(st.integers(0, 3 * S), min_size=1, max_size=20), st.integers(-1, 100 * S))
def test_slicing_time_changes_no_sample(offsets_ns: list[int], begin_ns: int) -> None:
    motion = DroneMotion()
    edges = [begin_ns + offset for offset in [0, *sorted(offsets_ns)]]
    pieces = [s for a, b in itertools.pairwise(edges) for s in motion.imu_between(a, b)]
    whole = motion.imu_between(edges[0], edges[-1])
    assert [t for t, *_ in pieces] == [t for t, *_ in whole]
    for (_, w, f), (_, w_whole, f_whole) in zip(pieces, whole, strict=True):
        # The last bits differ: BLAS sums one row and many rows in different orders.
        np.testing.assert_allclose(w, w_whole, rtol=0.0, atol=1e-12)
        np.testing.assert_allclose(f, f_whole, rtol=0.0, atol=1e-12)
