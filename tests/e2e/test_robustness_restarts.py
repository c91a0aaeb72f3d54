"""Peers and the bridge itself killed and started again at any moment, in any order."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.support.common import wait_until
from tests.support.harness import NAMES, Rig, delivered, trouble
from tests.support.programs import queued_s

PEERS: Final = ("lab", "renderer", "client")
SOAK_S: Final = float(os.environ.get("VIL_SOAK_S", "20"))
SEED: Final = int(os.environ.get("VIL_SOAK_SEED", "7"))
RESUME_S: Final = 2.0

pytestmark = [pytest.mark.process, pytest.mark.long, pytest.mark.timeout(900 + 2 * SOAK_S)]


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    # The threshold to coasting is far above the gaps that a busy machine makes.
    with Rig(
        tmp_path_factory.mktemp("restarts"), actors__drone__tracking__coast_after_ms=150
    ) as made:
        made.start_all()
        yield made


def resume_s(rig: Rig) -> float:
    """Seconds until everything works and one more picture has reached the client, without those
    in the queue.
    """
    before, begun_s, waited_s = rig.received(), time.monotonic(), queued_s(map(rig.pid, NAMES))

    def resumed() -> bool:
        status = rig.get()
        found = trouble(status)
        if time.monotonic() - begun_s > RESUME_S:
            print(
                f"{time.monotonic() - begun_s:.1f} s: {delivered(status) - before} "
                f"pictures, {found}"
            )
        return not found and delivered(status) > before

    return wait_until(resumed, what=rig.trouble, period_s=0.05) - (
        queued_s(map(rig.pid, NAMES)) - waited_s
    )


def restart(rig: Rig, *names: str) -> float:
    """Start peers that are away; seconds from when the last of them is up until all works."""
    rig.start(*names)
    for name in names:
        rig.await_ready(name)
    return resume_s(rig)


def notice(rig: Rig, what: str, holds: Any) -> dict[str, Any]:
    """Wait until the status shows something; returns that status."""
    wait_until(lambda: holds(rig.get()), what=what)
    return rig.get()


def test_status_says_who_is_away_and_why(rig: Rig) -> None:
    rig.kill("client")
    notice(rig, "subscriber gone", lambda s: not s["streams"]["front"]["subscribers"])
    rig.kill("renderer")
    # A renderer that was killed with unread data resets its connection. The bridge ignores that,
    # and says first that the renderer has not answered.
    away = f"-input-port {rig.pose_port}"
    status = notice(
        rig, "renderer away", lambda s: away in s["renderers"]["hall"]["report"]["reason"]
    )
    reason = status["renderers"]["hall"]["report"]["reason"]
    assert status["renderers"]["hall"]["report"]["state"] == "waiting"
    assert any(reason in why for why in status["not_ready_because"])
    seen_before = status["actors"]["drone"]["seen"]
    rig.kill("lab")
    status = notice(
        rig, "actors lost", lambda s: {a["state"] for a in s["actors"].values()} == {"lost"}
    )
    for state in ("coasting", "stale", "lost"):
        assert status["actors"]["drone"]["seen"][state] > seen_before.get(state, 0), state
    # Frames end before the first question without an answer.
    reasons = {
        "imu": "does not exist",
        **dict.fromkeys(("motive_flight", "motive_actor"), "no answer from 127.0.0.1"),
    }

    def waits(status: dict[str, Any]) -> bool:
        reports = {name: source["report"] for name, source in status["sources"].items()}
        return {report["state"] for report in reports.values()} == {"waiting"} and all(
            reason in reports[name]["reason"] for name, reason in reasons.items()
        )

    status = notice(rig, "sources wait", waits)
    for name in reasons:
        assert status["sources"][name]["report"]["since_ns"] <= status["t_ns"]
    assert not status["ready"] and len(status["not_ready_because"]) == 4
    assert status["cameras"]["front"]["dropped"]["tracking_lost"] > 0
    assert restart(rig, *PEERS) < RESUME_S


def test_random_restarts(rig: Rig, record_property: Any) -> None:
    """Any peers die in any order, stay away for any time, come back in any order, some die as
    they start.
    """
    choose = random.Random(SEED)
    daemon = rig.pid("daemon")
    before = rig.get()
    resumed: list[float] = []
    kills: dict[str, int] = dict.fromkeys(PEERS, 0)
    end_s = time.monotonic() + SOAK_S
    while time.monotonic() < end_s:
        away = choose.sample(PEERS, choose.choice((1, 1, 2, 3)))
        for name in away:
            rig.kill(name)
            kills[name] += 1
            _pause(choose.uniform(0.0, 0.3))
        _pause(choose.choice((0.0, choose.uniform(0.0, 1.5))))
        if choose.random() < 0.3:
            name = choose.choice(away)
            rig.start(name)
            _pause(choose.uniform(0.0, 2.0))
            rig.kill(name)
            kills[name] += 1
        choose.shuffle(away)
        resumed.append(restart(rig, *away))
        assert rig.alive("daemon") and rig.pid("daemon") == daemon
        _pause(choose.uniform(0.0, 0.5))
    after = rig.get()
    dropped = _dropped(after, before)
    report = {"kills": kills, "resume_s": [round(s, 2) for s in resumed], "dropped": dropped}
    record_property("restarts", report)
    print(json.dumps(report))
    assert max(resumed) < RESUME_S, report
    assert (
        dropped["front tracking_lost"] > 0
        and dropped["hall unanswered"] + dropped["front renderer_busy"] > 0
    ), report


def test_client_outlives_the_bridge(rig: Rig) -> None:
    client = rig.pid("client")
    rig.kill("daemon")
    rig.start("daemon")
    rig.await_ready("daemon")
    wait_until(lambda: not rig.trouble() and rig.received() > 0, what=rig.trouble)
    assert rig.alive("client") and rig.pid("client") == client
    code, _ = rig.end("client", signal.SIGINT)
    summary = json.loads((rig.folder / "client.json").read_text())
    assert (
        code == 0
        and summary["counters"]["registrations"] >= 2
        and summary["counters"].get("malformed", 0) == 0
    )


def test_bridge_ends_clean(rig: Rig) -> None:
    code, waited_s = rig.end("daemon")
    assert code == 0 and waited_s < 2.0
    assert "Traceback" not in rig.log("daemon") and "ERROR" not in rig.log("daemon")


def _pause(seconds: float) -> None:
    """The schedule's own time: what is tested is that it does not matter."""
    time.sleep(seconds)


def _dropped(after: dict[str, Any], before: dict[str, Any]) -> dict[str, int]:
    """What was counted between two statuses."""

    def counts(status: dict[str, Any]) -> dict[str, int]:
        found = {f"front {k}": n for k, n in status["cameras"]["front"]["dropped"].items()}
        found |= {f"stream {k}": n for k, n in status["streams"]["front"]["dropped"].items()}
        hall = status["renderers"]["hall"]["report"]["counters"]
        found |= {
            f"hall {k}": hall[k] for k in ("unanswered", "skipped", "swallowed", "duplicates")
        }
        for name in ("motive_flight", "motive_actor"):
            counters = status["sources"][name]["report"]["counters"]
            found |= {f"{name} {k}": counters.get(k, 0) for k in ("lost", "resets", "undescribed")}
        return found

    first = counts(before)
    return {k: n - first.get(k, 0) for k, n in counts(after).items() if n > first.get(k, 0)}
