"""``make setup`` while another installation into the same checkout runs."""

from __future__ import annotations

import fcntl
import shutil
from pathlib import Path

import pytest

from tests.support.common import ROOT
from tests.support.programs import Program

pytestmark = pytest.mark.process


def test_an_installation_waits_for_another_one(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    with (tmp_path / "scripts" / "packages.sh").open() as another:
        fcntl.flock(another, fcntl.LOCK_EX)
        with Program("sh", tmp_path / "scripts" / "setup.sh", tmp_path / "environment") as setup:

            def waits() -> bool:
                children = Path(f"/proc/{setup.pid}/task/{setup.pid}/children").read_text().split()
                locks = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
                return any(
                    words[1:3] == ["->", "FLOCK"] and words[5] in children for words in locks
                )

            setup.await_that(waits, "the lock")
            assert setup.text() == ""
    assert not (tmp_path / "environment").exists()
