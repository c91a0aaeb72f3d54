"""A camera that no onboard reader reads: its latency stages fill, and its past is served."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import pytest

from tests.support.bridge_rig import drawn_bridge
from tests.support.common import PATIENCE_S
from tests.support.dashboard_rig import CONFIG, draw, film
from tests.support.events import until
from vil_bridge.web.client import BridgeApi, NoSuchThing

pytestmark = pytest.mark.wire


async def test_stages_and_time_series_fill_without_a_reader(tmp_path: Path) -> None:
    async with drawn_bridge(
        (CONFIG % tmp_path).replace("front: {", "front: {actor: drone, "), draw
    ) as bridge:
        numbers = itertools.count()

        def flown() -> bool:
            film(bridge, next(numbers), (0.5, 0.0, 1.0))
            rows = bridge.context.health.history.view()["front"].output_ms
            return any(ms is not None for ms in rows)

        await until(flown)
        await asyncio.to_thread(_read, BridgeApi(bridge.http.url, timeout_s=PATIENCE_S))
        assert bridge.context.cameras["front"].sink.sent == 0


def _read(api: BridgeApi) -> None:
    stages = {name: view.since_start for name, view in api.get_latency_by_name("front").items()}
    parts = (
        "capture_to_arrival",
        "arrival_to_request",
        "request_to_image",
        "image_to_warp",
        "warp_to_output",
    )
    for name in (*parts, "capture_to_output"):
        assert stages[name].count > 0, name
    assert stages["capture_to_received"].count == stages["encode_to_send"].count == 0
    front = api.get_history_by_name("front")
    assert (
        len(
            {
                len(column)
                for column in (front.utc_s, front.rate_hz, front.picture_age_s, front.pose_age_s)
            }
        )
        == 1
    )
    assert max(front.rate_hz) > 0.0
    assert any(age_s is not None for age_s in front.pose_age_s)
    assert set(front.received_ms) == {None}
    assert api.get_history()["front"].utc_s[: len(front.utc_s)] == front.utc_s
    with pytest.raises(NoSuchThing, match="nothing named 'rear' in history; known: front, plain"):
        api.get_history_by_name("rear")
