"""Shared helpers of the tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def data_dir(name: str) -> Path:
    """Folder of real recordings; skips the test where it is absent."""
    base = Path(os.environ.get("VIL_TEST_DATA", ROOT.parent / "shared" / "data"))
    path = base / name
    if not path.exists():
        pytest.skip(f"recordings are absent: {path.name} (set VIL_TEST_DATA to the folder that holds it)")
    return path
