"""Fixtures that several files of unit tests share."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.render import Renderers


@pytest.fixture(scope="module")
def renderers() -> Iterator[Renderers]:
    """Renderers by scene and profile for the tests of one file."""
    from tests.support.render import Renderers  # not before it is needed: most tests draw nothing

    made = Renderers()
    yield made
    made.close()


@pytest.fixture(scope="session")
def run_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Cache folder of this run: its workers share what one of them has baked.

    A later run has another one, since the names of the files do not say which code made them.
    """
    own = tmp_path_factory.getbasetemp()
    return (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "cache"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A megabyte."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("may not mount a small disk here")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)
