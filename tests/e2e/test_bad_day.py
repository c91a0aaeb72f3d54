"""A short bad day in the suite; ``VIL_SOAK_S=1800`` makes it the long one."""

from __future__ import annotations

import os
import sys

import pytest

from tests.support.programs import run

pytestmark = pytest.mark.process


SECONDS = float(os.environ.get("VIL_SOAK_S", "16"))


@pytest.mark.long
@pytest.mark.timeout(SECONDS + 900)
def test_a_bad_day_breaks_nothing_and_every_count_reconciles() -> None:
    command = [sys.executable, "-m", "tests.soak.bad_day", "--seconds", str(SECONDS)]
    day = run(*command, limit_s=SECONDS + 600)
    assert day.returncode == 0, f"{day.stdout}\n{day.stderr}"
    assert "Traceback" not in day.stderr, day.stderr
