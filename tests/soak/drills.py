"""Fault drills: one thing goes wrong in a whole bridge, and its status has to say so, and all to be
well again.

Each drill breaks something real: a process is killed, stopped or slowed, a network is bad, a disk
full. It returns what the status said, how soon, and how long after the end of the fault everything
worked again. The tests run them, and ``python -m tests.soak.fault_table`` writes what was seen into
``docs/concepts/reliability.md``.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pytest

from tests.soak.site import LIBFAKETIME, Site
from vil_bridge.core.clock import NS_PER_S

DRILLS: Final[list[Drill]] = []


@dataclass(frozen=True, slots=True)
class Seen:
    """What came of a drill.

    Attributes:
        words: of the status, or the counter that told.
        noticed_s: from the fault to those words; None = at once, or nothing to notice.
        recovered_s: from the end of the fault until all worked and one more picture had reached a
            reader.
    """

    words: str
    noticed_s: float | None
    recovered_s: float


@dataclass(frozen=True, slots=True)
class Drill:
    """``expected`` is for people; ``quick`` ones run with every test run."""

    name: str
    fault: str
    expected: str
    run: Callable[[Site], Seen]
    quick: bool


def drill(
    fault: str, expected: str, *, quick: bool = False
) -> Callable[[Callable[[Site], Seen]], None]:
    """Register a drill."""

    def register(run: Callable[[Site], Seen]) -> None:
        DRILLS.append(Drill(run.__name__.lstrip("_"), fault, expected, run, quick))

    return register


def _reason(kind: str, name: str) -> Callable[[dict[str, Any]], str]:
    return lambda status: str(status[kind][name]["report"]["reason"])


def _overload(status: dict[str, Any]) -> str:
    return next((words for words in status["overload"] if "camera front" in words), "")


def _flight(status: dict[str, Any]) -> dict[str, int]:
    found: dict[str, int] = status["sources"]["motive_flight"]["report"]["counters"]
    return found


# --- renderer -----------------------------------------------------------------------------------


@drill(
    "renderer killed",
    "its row says that none is connected and how to start one; the rest goes on",
    quick=True,
)
def _renderer_killed(site: Site) -> Seen:
    site.kill("renderer")
    words, noticed_s = site.words(_reason("renderers", "hall"), "no renderer has connected")
    assert site.get()["sources"]["motive_flight"]["report"]["state"] == "running"
    site.start("renderer")
    site.await_ready("renderer")
    return Seen(words, noticed_s, site.recovered_s())


@drill(
    "renderer stopped (SIGSTOP)",
    "its row says that it has not answered; requests under way are given up and counted",
)
def _renderer_stopped(site: Site) -> Seen:
    before = site.counter("renderers", "hall", "unanswered")
    with site.stopped("renderer"):
        words, noticed_s = site.words(_reason("renderers", "hall"), "is stopped or cut off")
    recovered_s = site.recovered_s()
    assert site.counter("renderers", "hall", "unanswered") > before
    return Seen(words, noticed_s, recovered_s)


@drill(
    "renderer slowed (its link at 150 kbit/s)",
    "fewer pictures, the newest ones; the status says overloaded and why",
)
def _renderer_slowed(site: Site) -> Seen:
    with site.weather("pictures", "rate=150kbit"):
        words, noticed_s = site.words(_overload, "overloaded: camera front")
    return Seen(words, noticed_s, site.recovered_s())


@drill("renderer's links cut", "as if it were stopped; the same connections go on afterwards")
def _renderer_cut(site: Site) -> Seen:
    with site.weather("pictures", "cut=60s@0ms"), site.weather("poses", "cut=60s@0ms"):
        words, noticed_s = site.words(_reason("renderers", "hall"), "is stopped or cut off")
    return Seen(words, noticed_s, site.recovered_s())


# --- lab ----------------------------------------------------------------------------------------


@drill(
    "mocap server killed",
    "sources wait and say what to check; actors are coasting, stale, lost; no picture of "
    "a lost actor",
)
def _lab_killed(site: Site) -> Seen:
    site.kill("lab")
    words, noticed_s = site.words(_reason("sources", "motive_flight"), "no answer from 127.0.0.1")
    site.until(lambda s: {a["state"] for a in s["actors"].values()} == {"lost"}, "actors lost")
    dropped = site.get()["cameras"]["front"]["dropped"]
    assert dropped["tracking_lost"] > 0
    site.start("lab")
    site.await_ready("lab")
    return Seen(words, noticed_s, site.recovered_s())


@drill(
    "mocap server stopped (SIGSTOP)",
    "actors go through coasting and stale to lost, each entry counted; nothing restarts",
    quick=True,
)
def _lab_stopped(site: Site) -> Seen:
    seen = site.get()["actors"]["drone"]["seen"]
    with site.stopped("lab"):
        _, noticed_s = site.until(lambda s: s["actors"]["drone"]["state"] == "lost", "lost")
    recovered_s = site.recovered_s()
    after = site.get()["actors"]["drone"]["seen"]
    for state in ("coasting", "stale", "lost"):
        assert after[state] > seen.get(state, 0), state
    return Seen("drone: coasting, stale, lost", noticed_s, recovered_s)


@drill(
    "20 % of the mocap datagrams lost",
    "gaps are predicted over and counted; actors stay tracked",
    quick=True,
)
def _mocap_loss(site: Site) -> Seen:
    before = site.counter("sources", "motive_flight", "lost")
    with site.weather("mocap", "down.loss=20%,seed=3"):
        _, noticed_s = site.until(
            lambda s: (
                s["sources"]["motive_flight"]["report"]["counters"].get("lost", 0) >= before + 20
            ),
            "losses counted",
        )
        assert site.get()["actors"]["drone"]["state"] in ("tracked", "coasting")
    lost = site.counter("sources", "motive_flight", "lost") - before
    return Seen(f"lost: {lost} frames more", noticed_s, site.recovered_s())


@drill(
    "mocap datagrams 60 ms ± 20 ms late and out of order",
    "what is overtaken is counted, time stays that of the capture",
    quick=True,
)
def _mocap_delay(site: Site) -> Seen:
    before = site.counter("sources", "motive_flight", "reordered")
    with site.weather("mocap", "down.delay=60ms±20,seed=3"):
        _, noticed_s = site.until(
            lambda s: _flight(s).get("reordered", 0) > before + 5, "reordering"
        )
        assert site.get()["sources"]["motive_flight"]["report"]["state"] == "running"
    count = site.counter("sources", "motive_flight", "reordered") - before
    return Seen(f"reordered: {count} datagrams more", noticed_s, site.recovered_s())


@drill(
    "mocap link of 200 kbit/s, a quarter of what it needs",
    "frames that came too late or not at all are counted; nothing piles up",
)
def _mocap_rate(site: Site) -> Seen:
    before = _flight(site.get())
    with site.weather("mocap", "down.rate=200kbit"):
        _, noticed_s = site.until(
            lambda s: s["actors"]["drone"]["state"] != "tracked", "not tracked any more"
        )
    recovered_s = site.recovered_s()
    after = _flight(site.get())
    more = {k: after.get(k, 0) - before.get(k, 0) for k in ("lost", "stale")}
    assert sum(more.values()) > 0
    return Seen(
        "drone coasting; " + ", ".join(f"{k} {n}" for k, n in more.items() if n),
        noticed_s,
        recovered_s,
    )


@drill(
    "the mocap computer's clock set back by 0.5 s",
    "the clock is estimated again, the actor is tracked again; nothing of before is shown as now",
)
def _foreign_clock_back(site: Site) -> Seen:
    return _clock_step(site, "-500ms")


@drill(
    "the mocap computer's clock set forward by 0.5 s",
    "the clock is estimated again; no pose of the future is shown",
)
def _foreign_clock_forward(site: Site) -> Seen:
    return _clock_step(site, "500ms")


def _clock_step(site: Site, size: str) -> Seen:
    site.kill("lab")
    site.start_with("lab", "--faults", f"step={size}@10s")
    site.await_ready("lab")
    site.recovered_s()
    offset_ns = site.get()["sources"]["motive_flight"]["clock"]["offset_ns"]

    def stepped(status: dict[str, Any]) -> bool:
        now_ns = status["sources"]["motive_flight"]["clock"]["offset_ns"]
        return now_ns is not None and abs(abs(now_ns - offset_ns) - 500_000_000) < 100_000_000

    status, noticed_s = site.until(stepped, "the new offset")
    moved_ms = 1e-6 * (status["sources"]["motive_flight"]["clock"]["offset_ns"] - offset_ns)
    recovered_s = site.recovered_s()
    ages = site.get()["actors"]["drone"]["age_s"]
    assert -0.05 < ages < 1.0, ages
    return Seen(f"clock offset moved by {moved_ms:+.0f} ms", noticed_s, recovered_s)


# --- readers ------------------------------------------------------------------------------------


@drill(
    "onboard client killed",
    "its subscription ends; other readers do not miss a picture",
    quick=True,
)
def _client_killed(site: Site) -> Seen:
    readers = len(site.get()["streams"]["front"]["subscribers"])
    site.kill("client")
    _, noticed_s = site.until(
        lambda s: len(s["streams"]["front"]["subscribers"]) < readers, "one reader less"
    )
    site.one_more_picture()
    site.start("client")
    site.until(lambda s: len(s["streams"]["front"]["subscribers"]) == readers, "the reader again")
    return Seen("one subscriber less", noticed_s, site.recovered_s())


@drill(
    "onboard client stopped (SIGSTOP)",
    "its pictures are dropped and counted, newest first once it goes on; others get theirs",
    quick=True,
)
def _client_stopped(site: Site) -> Seen:
    before = sum(site.get()["streams"]["front"]["dropped"].values())
    with site.stopped("client"):
        _, noticed_s = site.until(
            lambda s: sum(s["streams"]["front"]["dropped"].values()) > before + 5, "drops"
        )
        site.one_more_picture()
    dropped = site.get()["streams"]["front"]["dropped"]
    return Seen(", ".join(f"{k} {n}" for k, n in dropped.items()), noticed_s, site.recovered_s())


@drill(
    "radio to the onboard computer cut",
    "its subscription ends after silence; it registers again by itself",
)
def _radio_cut(site: Site) -> Seen:
    readers = len(site.get()["streams"]["front"]["subscribers"])
    with site.weather("radio0", "cut=60s@0ms"), site.weather("radio1", "cut=60s@0ms"):
        _, noticed_s = site.until(
            lambda s: len(s["streams"]["front"]["subscribers"]) < readers, "one reader less"
        )
        site.one_more_picture()
    begun_s = time.monotonic()
    site.until(lambda s: len(s["streams"]["front"]["subscribers"]) == readers, "the reader again")
    site.recovered_s()
    return Seen("one subscriber less", noticed_s, time.monotonic() - begun_s)


@drill(
    "a dashboard that stops reading",
    "its messages are dropped; pictures and poses do not wait for it",
    quick=True,
)
def _deaf_dashboard(site: Site) -> Seen:
    with site.deaf_dashboard():
        before = site.received()
        site.until(lambda s: site.received() > before + 10, "ten pictures more")
        site.recovered_s()
    return Seen("nothing: pictures go on", None, site.recovered_s())


# --- the bridge's own computer ------------------------------------------------------------------


@drill(
    "the bridge stopped (SIGSTOP) for 2 s",
    "late ticks are counted as missed, old datagrams as stale; nothing old is shown as new",
    quick=True,
)
def _daemon_stopped(site: Site) -> Seen:
    before = site.get()["cameras"]["front"]["dropped"].get("tick_missed", 0)
    site.signal("daemon", signal.SIGSTOP)
    time.sleep(2.0)  # the fault itself
    site.signal("daemon", signal.SIGCONT)
    recovered_s = site.recovered_s()
    missed = site.get()["cameras"]["front"]["dropped"].get("tick_missed", 0) - before
    assert missed > 0
    return Seen(f"tick_missed: {missed} more", None, recovered_s)


@drill(
    "wall time set forward by an hour (libfaketime)", "nothing but the stamps of log lines changes"
)
def _wall_time(site: Site) -> Seen:
    if LIBFAKETIME is None:
        pytest.skip("no wall time of its own: apt-get install faketime")
    with site.own_wall_time() as set_to:
        site.recovered_s()
        before, log = site.get(), len(site.log("daemon"))
        set_to("+3600")
        site.rest("PUT", "api/v1/recording", {"name": "wall-time"})  # something to log
        hour = before["startup"]["utc_offset_ns"] + before["t_ns"] + 3500 * NS_PER_S
        site.until(
            lambda _: _newest_stamp_ns(site.log("daemon")) > hour, "a log line an hour later"
        )
        for _ in range(5):
            site.one_more_picture()
        site.recovered_s()
        after = site.get()
        site.rest("DELETE", "api/v1/recording")
        for actor in after["actors"].values():
            assert 0.0 <= actor["age_s"] < 1.0, after["actors"]
        assert after["startup"]["utc_offset_ns"] == before["startup"]["utc_offset_ns"]
        assert after["uptime_s"] - before["uptime_s"] < 600.0
        more = site.log("daemon")[log:].splitlines()
        assert not [line for line in more if "ERROR" in line or "WARNING" in line], more
    return Seen("nothing: states, ages and rates as before", None, 0.0)


def _newest_stamp_ns(log: str) -> int:
    """Of the log's last line that begins with one, Unix time."""
    stamps = re.findall(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)", log, re.MULTILINE)
    return (
        round(datetime.strptime(stamps[-1], "%Y-%m-%d %H:%M:%S").astimezone().timestamp())
        * NS_PER_S
    )


@drill(
    "disk full while recording (1 MB)",
    "the recording fails with the reason; the bridge goes on; once there is room one can "
    "record again",
)
def _disk_full(site: Site) -> Seen:
    with small_disk(site.recordings):
        site.rest("PUT", "api/v1/recording", {"name": "full"})
        begun_s = time.monotonic()
        reason = site.await_recording("failed")
        noticed_s = time.monotonic() - begun_s
        assert "space" in reason, reason
        site.recovered_s()
    site.rest("PUT", "api/v1/recording", {"name": "again"})
    begun_s = time.monotonic()
    site.await_recording("recording")
    recovered_s = time.monotonic() - begun_s
    site.rest("DELETE", "api/v1/recording")
    return Seen(f"recording failed: {reason}", noticed_s, recovered_s)


@contextlib.contextmanager
def small_disk(folder: Path, size: str = "1m") -> Iterator[None]:
    """A file system of that size in a folder's place.

    Skips the test where mounting is not allowed.
    """
    folder.mkdir(exist_ok=True)
    mount = shutil.which("mount")
    if mount is None or os.geteuid() != 0:
        pytest.skip("no small disk: mounting needs root")
    made = subprocess.run(
        [mount, "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)],
        capture_output=True,
        check=False,
    )
    if made.returncode:
        pytest.skip(f"no small disk: {made.stderr.decode().strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
