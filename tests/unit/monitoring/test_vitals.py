"""The heart of the daemon, its callbacks, its threads, and what it says when it cannot follow."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
import time
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest

from tests.support.common import PATIENCE_S, wait_until
from tests.support.events import until
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, machine_ns
from vil_bridge.core.errors import ProtocolError
from vil_bridge.interfaces.event_loop import LoopErrors
from vil_bridge.monitoring import watchdog as vitals_module
from vil_bridge.monitoring.overload import WINDOW_NS, CountWindow, OverloadDetector
from vil_bridge.monitoring.systemd_notify import ServiceManager
from vil_bridge.monitoring.watchdog import HUNG_S, Watchdog
from vil_bridge.pipeline.poll_thread import PollThread


@pytest.mark.wire
async def test_beats_are_signs_of_life_and_a_hung_thread_ends_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vitals_module, "_STATUS_PERIOD_NS", 400 * NS_PER_MS)
    path = str(tmp_path / "notify")
    ears = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    ears.bind(path)
    ears.setblocking(False)
    busy: dict[str, float] = {"relay-front": 0.0}
    service = ServiceManager({"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "400000"})
    vitals = Watchdog(lambda: busy, lambda: "ready", service)
    vitals.start()
    loop = asyncio.get_running_loop()

    async def next_sign() -> str:
        async with asyncio.timeout(PATIENCE_S):
            return (await loop.sock_recv(ears, 1000)).decode()

    heard = {await next_sign() for _ in range(5)}
    assert heard == {"STATUS=ready", "WATCHDOG=1"}
    assert vitals.hung() == () and vitals.tasks >= 1

    busy["relay-front"] = HUNG_S + 1.25
    assert vitals.hung() == ("thread relay-front has been at one piece of work for 3.2 s",)
    # Said after the thread hung: what went out before it is read.
    while await next_sign() != "STATUS=ready":
        pass
    assert await next_sign() == "STATUS=ready", "no sign of life between two words four beats apart"

    busy["relay-front"] = 0.0
    while await next_sign() != "WATCHDOG=1":
        pass
    vitals.stop()
    ears.close()


async def test_a_loop_that_does_not_turn_is_seen_from_outside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ahead_ns = 0
    monkeypatch.setattr(vitals_module, "machine_ns", lambda: machine_ns() + ahead_ns)
    vitals = Watchdog(dict, str, ServiceManager({}))
    assert vitals.hung() == ()
    vitals.start()
    seen: list[tuple[str, ...]] = []

    def look() -> None:
        nonlocal ahead_ns
        ahead_ns = round(HUNG_S * NS_PER_S)
        seen.append(vitals.hung())

    outside = threading.Thread(target=look)
    outside.start()
    outside.join()  # the loop waits for it: it hangs
    (words,) = seen[0]
    assert words.startswith("the realtime loop has not turned for 2.")
    await until(lambda: not vitals.hung())
    vitals.stop()
    assert vitals.hung() == ()


async def test_a_bug_in_a_callback_is_kept_and_a_peers_trouble_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()
    errors = LoopErrors()

    def fail(error: Exception) -> None:
        raise error

    with errors.caught():
        for error in (
            ProtocolError("short"),
            ConnectionResetError("gone"),
            ConnectionResetError("gone"),
        ):
            loop.call_soon(fail, error)
        await asyncio.sleep(0)
        loop.call_exception_handler({"message": "told without an exception"})
        assert errors.counters.total() == 4 and not errors.failed
        bug = ZeroDivisionError("a bug")
        loop.call_soon(fail, bug)
        loop.call_soon(fail, KeyError("another"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert errors.failed is bug
    kinds = {
        "ProtocolError": 1,
        "ConnectionResetError": 2,
        "other": 1,
        "ZeroDivisionError": 1,
        "KeyError": 1,
    }
    assert errors.counters == kinds
    assert loop.get_exception_handler() is before
    assert [r.levelname for r in caplog.records] == ["WARNING", "WARNING", "WARNING", "ERROR"]


def test_a_thread_tells_how_long_it_has_been_at_work() -> None:
    wake, go_on = os.eventfd(1, os.EFD_NONBLOCK), threading.Event()

    def work() -> int:
        with contextlib.suppress(BlockingIOError):  # its time has come, and nothing is there
            os.eventfd_read(wake)
        go_on.wait()
        return 100

    thread = PollThread("relay-x", [wake], work)
    thread.start()
    wait_until(lambda: thread.busy_s > 0.05, 5.0, "busy")
    go_on.set()
    wait_until(lambda: thread.busy_s == 0.0, 5.0, "idle again")
    thread.ask_to_stop()
    thread.join(time.monotonic_ns() + 60 * NS_PER_S)
    assert not thread._thread.is_alive()
    os.close(wake)


def test_a_bug_ends_a_thread_and_is_kept() -> None:
    bug = ZeroDivisionError("a bug")

    def work() -> int:
        raise bug

    thread = PollThread("relay-x", (), work)
    assert thread.failed is None
    thread.start()
    thread.join(machine_ns() + 60 * NS_PER_S)
    assert thread.failed is bug


def test_a_window_counts_the_last_seconds_and_begins_again_after_a_gap() -> None:
    window = CountWindow(2 * NS_PER_S)
    for second in range(6):
        window.add(second * NS_PER_S, {"front": Counter(sent=10 * second)})
    assert window.recent("front") == (Counter(sent=20), 2.0)
    window.add(6 * NS_PER_S, {})  # not to be judged
    assert window.recent("front") == (Counter(), 0.0)
    window.add(7 * NS_PER_S, {"front": Counter(sent=90)})
    assert window.recent("front") == (Counter(), 0.0)
    window.add(8 * NS_PER_S, {"front": Counter(sent=93)})
    assert window.recent("front") == (Counter(sent=3), 1.0)


def test_overload_is_said_while_it_lasts_with_its_reasons() -> None:
    watch = OverloadDetector()
    rates = {"front": 20.0, "calm": 20.0}
    counts = {"front": Counter({"tracking_lost": 50}), "calm": Counter[str]()}
    t_ns = 10 * NS_PER_S
    for _ in range(20):  # a second is 20 ticks, of which the renderer was busy at 8
        t_ns += NS_PER_S // 4
        counts["front"].update(renderer_busy=2, tracking_lost=3)
        counts["calm"].update(superseded=0)
        watch.check(t_ns, {n: Counter(c) for n, c in counts.items()}, rates)
    (words,) = watch.words
    assert words.startswith("overloaded: camera front left out 24 of 60 pictures within 3 s")
    assert "(renderer_busy 24)" in words
    for _ in range(WINDOW_NS * 4 // NS_PER_S):
        t_ns += NS_PER_S // 4
        watch.check(t_ns, {n: Counter(c) for n, c in counts.items()}, rates)
    assert watch.words == ()


def test_a_simulation_that_stands_costs_no_memory_and_keeps_the_words() -> None:
    watch, rates = OverloadDetector(), {"front": 20.0}
    watch.check(0, {"front": Counter()}, rates)
    tracemalloc.start()
    for _ in range(5000):  # 20 minutes
        watch.check(NS_PER_S, {"front": Counter(superseded=10)}, rates)
    kept_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept_bytes < 100_000
    (words,) = watch.words
    assert "left out 10 of 20 pictures within 1 s" in words
    watch.check(2 * NS_PER_S, {"front": Counter(superseded=15)}, rates)
    assert "left out 15 of 40 pictures within 2 s" in watch.words[0]


def test_a_few_pictures_left_out_are_no_overload_and_a_camera_may_come_and_go() -> None:
    watch = OverloadDetector()
    watch.check(0, {"slow": Counter()}, {"slow": 0.5})
    watch.check(
        NS_PER_S,
        {"slow": Counter(superseded=2), "new": Counter(superseded=900)},
        {"slow": 0.5, "new": 1.0},
    )
    assert watch.words == ()
    watch.check(2 * NS_PER_S, {"new": Counter(superseded=901)}, {"new": 1.0})
    assert watch.words == ()
