"""Pins of the lock files.

``requirements.lock``, and the part of it that ``make setup`` installs.
"""

from __future__ import annotations

import re
from importlib.metadata import packages_distributions
from typing import Final

from tests.support.common import ROOT

__all__ = ["ALL", "DEMO", "lock_entries", "modules_outside"]

ALL: Final = "requirements.lock"
DEMO: Final = "requirements-demo.lock"


def lock_entries(lock: str) -> dict[str, str]:
    """Name to everything that a lock says about it."""
    blocks = re.split(r"\n(?=\S)", (ROOT / lock).read_text().strip())
    return {block.split("==")[0]: block for block in blocks}


def modules_outside(lock: str) -> list[str]:
    """Top-level modules that this interpreter has from distributions that a lock does not pin.

    Ours left out.
    """
    pinned = {*lock_entries(lock), "vil-bridge"}
    return [
        module
        for module, distributions in packages_distributions().items()
        if not pinned & {re.sub(r"[-_.]+", "-", name).lower() for name in distributions}
    ]
