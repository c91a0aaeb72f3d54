"""A pose and a picture pass through few files of the product."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.common import ROOT

pytestmark = pytest.mark.process


def test_a_pose_and_a_picture_cross_few_files() -> None:
    counted = subprocess.run(
        [sys.executable, "-m", "tests.support.crossings"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert counted.returncode == 0, counted.stdout + counted.stderr
    assert "vil_bridge/daemon/sources.py" in counted.stdout, "the stages of a pose"
    assert "vil_bridge/outputs/stream/zmq_sink.py" in counted.stdout, "the send of a picture"
