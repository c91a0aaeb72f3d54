"""Angles that the page shows and sends are the attitude that they stand for."""

from __future__ import annotations

import numpy as np
import pytest

from tests.browser.in_node import in_node
from vil_bridge.core.geometry import q_conj, q_from_euler_zyx, q_log, q_mul

pytestmark = pytest.mark.browser


_SCRIPT = """
import { fromYpr, toYpr } from "./rotation.mjs";
const answer = (all) => all.map((q) => [toYpr(q), fromYpr(...toYpr(q))]);
"""
_ATTITUDES = [
    *(
        (float(yaw), float(pitch), 20.0)
        for yaw in (-180, -90, 0, 30, 135)
        for pitch in (-89.9, -30, 0, 60, 89.9)
    ),
    *(
        (yaw, pitch, roll)
        for yaw in (0.0, 30.0, -150.0)
        for pitch in (-90.0, 90.0)
        for roll in (0.0, 45.0, -170.0)
    ),
]


def test_yaw_pitch_and_roll_there_and_back() -> None:
    given = [q_from_euler_zyx(*np.radians(ypr)) for ypr in _ATTITUDES]
    for (yaw, pitch, roll), q, (shown, sent) in zip(
        _ATTITUDES, given, in_node(_SCRIPT, [q.tolist() for q in given]), strict=True
    ):
        assert np.linalg.norm(q_log(q_mul(q_conj(q), np.array(sent)))) < 1e-7, (yaw, pitch, roll)
        assert all(abs(angle) <= 180.0 for angle in shown)
        if abs(pitch) == 90.0:
            assert shown[1:] == pytest.approx([pitch, 0.0])
