"""Every input that the fuzzer ever kept is read again, without the fuzzer.

Nothing but documented errors escapes.
"""

from __future__ import annotations

import importlib.util
import logging
import struct
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz.planted import SHORT
from tests.fuzz.run import fuzz
from tests.fuzz.target import CODECS, CORPORA, Target, join, load, saved, split
from tests.fuzz.watch import LIMIT_BYTES

pytestmark = pytest.mark.wire


_LARGEST_BYTES = 1_500_000

with_fuzzer = pytest.mark.skipif(
    importlib.util.find_spec("atheris") is None,
    reason="atheris is not installed: it has no package for this processor or Python",
)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("codec", CODECS)
def test_seeds_and_saved_inputs_are_read_or_refused(codec: str) -> None:
    target = load(codec)
    seeds = list(target.seeds())
    assert seeds
    for data in (*seeds, b""):
        target.take(data)
    for data in saved(codec):
        assert _peak_bytes(target, data) < LIMIT_BYTES


def _peak_bytes(target: Target, data: bytes) -> int:
    tracemalloc.start()
    try:
        target.take(data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_corpora_are_small_and_belong_to_codecs() -> None:
    assert {folder.name for folder in CORPORA.iterdir()} <= set(CODECS)
    assert sum(path.stat().st_size for path in CORPORA.rglob("*")) < _LARGEST_BYTES


def test_parts_come_back() -> None:
    assert split(join(b"a", b"", b"b|")) == [b"a", b"", b"b|"]


@pytest.mark.process
@pytest.mark.long
@with_fuzzer
def test_a_length_that_is_no_longer_checked_is_found_within_seconds(tmp_path: Path) -> None:
    outcome = fuzz("tests.fuzz.planted:SHORT", tmp_path, runs=300_000, seconds=60)
    assert outcome.finding.startswith("error: unpack_from requires a buffer"), outcome
    (found,) = tmp_path.glob("*/crash-*")
    with pytest.raises(struct.error):
        SHORT.take(found.read_bytes())
    load("rtcp").take(found.read_bytes())


@pytest.mark.process
@pytest.mark.long
@with_fuzzer
@pytest.mark.parametrize(
    ("defect", "finding"), [("SLOW", "TooSlowError"), ("GREEDY", "TooMuchMemoryError")]
)
def test_slow_and_greedy_inputs_are_found(tmp_path: Path, defect: str, finding: str) -> None:
    outcome = fuzz(f"tests.fuzz.planted:{defect}", tmp_path, runs=300_000, seconds=60)
    assert outcome.finding.startswith(finding), outcome
