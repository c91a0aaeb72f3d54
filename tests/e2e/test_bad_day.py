"""A short bad day in the suite; ``VIL_SOAK_S=1800`` makes it the long one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support import ROOT

SECONDS = float(os.environ.get("VIL_SOAK_S", "16"))


@pytest.mark.timeout(SECONDS + 120)
def test_a_bad_day_breaks_nothing_and_every_count_reconciles() -> None:
    command = [sys.executable, "-m", "tests.soak.bad_day", "--seconds", str(SECONDS)]
    day = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS + 100, check=False)
    assert day.returncode == 0, f"{day.stdout}\n{day.stderr}"
    assert "Traceback" not in day.stderr, day.stderr
