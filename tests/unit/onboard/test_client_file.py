"""The client as a file: old Python's syntax, no company, pictures without an image library."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from tests.support.common import ROOT
from tests.support.one_file import check_python_3_8, companions
from vil_bridge import client
from vil_bridge.core.types import ImageArray

FILE = ROOT / "vil_bridge" / "client.py"
ALLOWED = {"numpy", "zmq", "cv2"}  # cv2 only inside --show


@pytest.mark.process
def test_it_is_python_3_8() -> None:
    check_python_3_8(FILE)


def test_it_imports_numpy_and_pyzmq_and_nothing_of_ours() -> None:
    assert companions(FILE) == ALLOWED


@pytest.mark.parametrize(
    "image",
    [
        np.arange(5 * 7, dtype=np.uint8).reshape(5, 7),
        np.arange(5 * 7 * 3, dtype=np.uint8).reshape(5, 7, 3),
        (np.arange(5 * 7, dtype=np.uint16) * 1800).reshape(5, 7),
        np.arange(5 * 7 * 3, dtype=np.uint8).reshape(5, 7, 3)[::-1],
    ],
)
def test_png_reads_back_with_another_library(image: ImageArray, tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    client.write_png(path, image)
    read = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
    assert read is not None and read.dtype == image.dtype
    assert np.array_equal(read[:, :, ::-1] if image.ndim == 3 else read, image)


@pytest.mark.parametrize(
    "endpoint", ["bridge:5560", "ipc:///tmp/x", "tcp://bridge", "tcp://bridge:port"]
)
def test_a_wrong_endpoint_is_a_clear_error(endpoint: str) -> None:
    with pytest.raises(ValueError, match="endpoint must be tcp://host:port"):
        client.Receiver(endpoint)


def test_the_figures_of_a_long_flight_need_no_more_memory() -> None:
    rng = np.random.default_rng(0)
    ages_s = rng.lognormal(-3.5, 0.5, 20_000) - 0.005  # clocks that disagree make ages negative
    tracemalloc.start()
    tally = client._Tally()
    made_bytes = tracemalloc.get_traced_memory()[0]
    picture: Any = np.zeros((1, 1), np.uint8), 0, 0, 0, None, None, None, None, {}, {}, {}
    for age_s in ages_s.tolist():
        tally.add(client.Frame(*(*picture, age_s, None, "tracked", 0)))
    grown_bytes = tracemalloc.get_traced_memory()[0] - made_bytes
    tracemalloc.stop()
    assert grown_bytes < 10_000
    printed = tally.summary()
    assert printed["frames"] == 20_000
    assert [printed["age_ms"][k] for k in ("p50", "p95", "max")] == pytest.approx(
        1e3 * np.percentile(ages_s, (50, 95, 100)), rel=1e-3
    )
    assert printed["latency_ms"]["p50"] is None
