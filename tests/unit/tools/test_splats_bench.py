"""``vil-bridge bench splats``: its rows, on small halls."""

from __future__ import annotations

import pytest

from vil_benchmarks.splats import bench_splats
from vil_renderer.embedded.splats.field import LEAST_FOR_LEVELS

pytest.importorskip("numba", reason="numba (extra splat) is not installed")


def test_rows_of_splats() -> None:
    rows = {row.name: row.value for row in bench_splats(5_000, LEAST_FOR_LEVELS + 5_000, 2)}
    for name in ("200k_640x480_2_threads", "200k_640x480_1_thread", "1m_lod_640x480", "1m_640x480"):
        for kind in (f"ms_{name}", f"ms_{name}_p10", f"cpu_ms_{name}"):
            value = rows[kind]
            assert value is not None and value > 0.0, kind
    quality = rows["psnr_db_1m_lod_least"]
    assert quality is not None and quality > 32.0
    assert rows["ratio_2_threads_200k"] is not None
