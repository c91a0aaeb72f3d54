"""``python -m tests.attacks.burn SHARE``.

A harmless process that uses this share of a processor core.
"""

from __future__ import annotations

import sys
import time
from typing import Final

from tests.attacks.attack import moments

PERIOD_S: Final = 0.01


def burn(share: float) -> None:
    """Use the share of one core, in periods of 10 ms, until the limit of :func:`moments`."""
    begun_s = spent_s = 0.0
    for _ in moments():
        if not begun_s:
            begun_s, spent_s = time.monotonic(), time.process_time()
        if time.process_time() - spent_s >= share * (time.monotonic() - begun_s):
            time.sleep(PERIOD_S)
        else:
            sum(range(20_000))


if __name__ == "__main__":
    burn(float(sys.argv[1]))
