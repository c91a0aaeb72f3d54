"""The compiled kernel under the sanitizers, in short: nothing is found, and a planted defect is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.sanitized_kernel import ENTRIES, PLANTED, HarnessError, build, fuzz

pytestmark = [pytest.mark.process, pytest.mark.long]

_RUNS = 10_000


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kernel") / "harness"
    try:
        build(path)
    except HarnessError as exc:
        pytest.skip(str(exc))
    return path


@pytest.mark.parametrize("entry", sorted(ENTRIES.keys() - {PLANTED}))
def test_no_report(entry: str, program: Path, tmp_path: Path) -> None:
    run = fuzz(program, entry, _RUNS, 1, tmp_path)
    assert not run.finding, run.finding


def test_a_length_that_is_believed_is_found(program: Path, tmp_path: Path) -> None:
    assert "heap-buffer-overflow" in fuzz(program, PLANTED, _RUNS, 1, tmp_path).finding
    found = (tmp_path / f"crash-{PLANTED}").read_bytes()
    assert found[0] + 1 >= len(found)
