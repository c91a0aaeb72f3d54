"""Fixtures that several files of unit tests share."""

from __future__ import annotations

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


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A megabyte."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], capture_output=True)
    if mounted.returncode:
        pytest.skip("may not mount a small disk here")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)
