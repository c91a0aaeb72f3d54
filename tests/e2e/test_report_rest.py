"""The report of a recording over REST.

That of the verb, readable under its policy, one at a time.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
import threading
from pathlib import Path

import httpx
import pytest

from tests.e2e.test_record_bridge import CAMERAS, grey, written
from tests.support.bridge_rig import drawn_bridge, recordings_of
from tests.support.common import wait_until
from tests.support.events import until
from tests.support.record import record, some_events
from vil_bridge.core.errors import RecordingError
from vil_bridge.monitoring.report.page import report_page
from vil_bridge.offline.report_input import recorded_report
from vil_bridge.services.recording.report_worker import ReportWorker
from vil_bridge.web.client import BridgeApi, NoSuchThing

pytestmark = pytest.mark.process


PATIENCE_S = 180.0
REPORT = "/api/v1/recordings/{}/report"


@pytest.mark.long
async def test_reports_over_rest(tmp_path: Path) -> None:
    async with (
        drawn_bridge(written(tmp_path, CAMERAS), grey) as bridge,
        httpx.AsyncClient(base_url=bridge.http.url, timeout=PATIENCE_S) as web,
    ):
        await asyncio.to_thread(recordings_of(bridge).start, "flight")
        relay = bridge.context.cameras["front"].relay
        await until(lambda: relay.delivered["rgb/compensated"] > 100)
        await asyncio.to_thread(_from_the_client, bridge.http.url, tmp_path / "copy.html")
        assert "Camera front" in (tmp_path / "copy.html").read_text(), "of what is written so far"
        await asyncio.to_thread(recordings_of(bridge).stop)

        both = await asyncio.gather(*(web.get(REPORT.format("flight")) for _ in range(2)))
        done, refused = sorted(both, key=lambda answer: answer.status_code)
        assert (done.status_code, refused.status_code) == (200, 409)
        assert "another report is being made" in refused.json()["detail"]
        assert done.text == report_page(*recorded_report(tmp_path / "recordings" / "flight.mcap"))

        (style,) = re.findall("<style>(.*?)</style>", done.text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
        policy = done.headers["content-security-policy"]
        assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}';")
        assert done.headers["x-content-type-options"] == "nosniff"
        await _what_cannot_be_reported(web, tmp_path)


def _from_the_client(url: str, into: Path) -> None:
    api = BridgeApi(url, timeout_s=PATIENCE_S)
    api.get_recording_report("flight.mcap", into)
    with pytest.raises(NoSuchThing, match="api/v1/recordings"):
        api.get_recording_report("nothing", into.with_name("none"))


async def _what_cannot_be_reported(web: httpx.AsyncClient, folder: Path) -> None:
    (folder / "recordings" / "bad.mcap").write_bytes(b"\x89MCAP0\r\nnothing")
    bad = await web.get(REPORT.format("bad"))
    assert bad.status_code == 409
    assert "is not a recording of a VIL Bridge" in bad.json()["detail"]
    for name in ("x" * 300, "%2e%2e%2fflight"):
        for path in (REPORT.format(name), f"/api/v1/recordings/{name}"):
            assert (await web.get(path)).status_code == 404, path


def test_a_bridge_that_ends_takes_its_report_along(tmp_path: Path) -> None:
    record(tmp_path / "flight.mcap", some_events(10))
    worker = ReportWorker()
    failed = list[str]()

    def make() -> None:
        try:
            with (tmp_path / "flight.mcap").open("rb") as file:
                worker.page_of("flight.mcap", file)
        except RecordingError as exc:
            failed.append(str(exc))

    making = threading.Thread(target=make)
    making.start()
    wait_until(lambda: worker._child is not None, PATIENCE_S)
    with worker._lock:
        child = worker._child
        assert child is not None
        assert Path(f"/proc/{child.pid}/oom_score_adj").read_text() == "1000\n", (
            "goes before the bridge"
        )
    worker.close()
    making.join(PATIENCE_S)
    assert failed == [
        "no report of flight.mcap could be made (exit code -9): fetch the file and run "
        "`vil-bridge report` on it"
    ]
    with (
        (tmp_path / "flight.mcap").open("rb") as file,
        pytest.raises(RecordingError, match="the bridge ends"),
    ):
        worker.page_of("flight.mcap", file)
