"""The soak's judges: growth and unbalanced books are seen, calm ones pass."""

from __future__ import annotations

import json
import os
import socket
import threading
import tracemalloc
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.soak.books import Books, Page, balance
from tests.soak.growth import LEAST_SAMPLES, Sample, growth, heap_growth, sampled
from tests.soak.plant import Plant
from vil_bridge.monitoring.heap_profile import growth_since, held
from vil_simulation.demo.child_processes import free_ports


def _samples(rss_mb: float, slope_mb_per_s: float, **counts: int) -> list[Sample]:
    seen = {"descriptors": 20, "sockets": 5, "threads": 4} | counts
    return [
        Sample(float(t), rss_mb + slope_mb_per_s * t, cpu_s=1.0, **seen) for t in range(0, 3600, 5)
    ]


def test_a_slow_leak_is_found_and_a_warm_up_is_none() -> None:
    assert list(growth("calm", _samples(100.0, 0.0)).problems(5.0)) == []
    leak = growth("daemon", _samples(100.0, 0.003))
    assert leak.grown_mb == 6.3
    assert list(leak.problems(5.0)) == ["daemon: resident memory grew by 6.3 MB"]
    late = [*_samples(100.0, 0.0)[:360], *_samples(100.0, 0.0, sockets=9)[360:]]
    assert list(growth("readers", late).problems(5.0)) == ["readers: sockets grew from 5 to 9"]
    start = [*_samples(50.0, 0.0)[:170], *_samples(100.0, 0.0)[170:]]
    assert list(growth("daemon", start).problems(5.0)) == []


def test_a_pause_of_the_computer_does_not_empty_a_window() -> None:
    """Time stands in none of the windows: they are shares of the samples."""
    samples = _samples(100.0, 0.0)[:LEAST_SAMPLES]
    late = [replace(s, t_s=s.t_s + 3600.0, rss_mb=120.0) for s in samples[6:]]
    assert growth("daemon", [*samples[:6], *late]).grown_mb == 0.0
    leak = [replace(s, rss_mb=107.0) for s in samples[-4:]]
    assert growth("daemon", [*samples[:-4], *leak]).grown_mb == 7.0
    with pytest.raises(ValueError, match="daemon: 23 samples, at least 24 are needed"):
        growth("daemon", samples[1:])


def test_a_process_is_sampled_while_it_is_there() -> None:
    own = sampled(os.getpid(), 1.0, tasks=3)
    assert (
        own is not None
        and own.rss_mb > 10.0
        and own.descriptors >= 3
        and own.threads >= 1
        and own.tasks == 3
    )
    assert sampled(2**22 + 1, 1.0) is None


def test_a_process_that_closes_descriptors_is_still_there() -> None:
    """Those that are listed may be closed before they are read."""
    over = threading.Event()

    def open_and_close() -> None:
        while not over.is_set():
            for fd in [os.open(os.devnull, os.O_RDONLY) for _ in range(20)]:
                os.close(fd)

    busy = threading.Thread(target=open_and_close)
    busy.start()
    try:
        assert all(sampled(os.getpid(), 1.0) for _ in range(500))
    finally:
        over.set()
        busy.join()


def test_the_lines_that_hold_more_are_read_from_the_log() -> None:
    assert heap_growth("nothing") == []
    lines = [{"at": "a.py:3", "kb": 250.0, "count": 9}]
    told = [
        f"WARNING heap growth: {json.dumps({'since_s': s, 'lines': found})}"
        for s, found in ((1, []), (2, lines))
    ]
    assert heap_growth("\n".join(told)) == lines


def test_growth_names_the_line() -> None:
    tracemalloc.start()
    first = held()
    kept = [bytes(1000) for _ in range(500)]
    found = growth_since(first, held())
    tracemalloc.stop()
    assert len(kept) == 500
    assert __file__ in found[0]["at"] and found[0]["kb"] > 500.0 and found[0]["count"] >= 500


def _page(t_s: float, **more: int) -> Page:
    """A bridge that has been right for so long, but for the counters given."""
    n = round(100 * t_s)
    counts = {
        "frames": n,
        "lost": 0,
        "sent": n,
        "answered": n,
        "received": n,
        "sent_frames": n,
    } | more
    renderer = {
        "sent": counts["sent"],
        "answered": counts["answered"],
        "repeats": 3,
        "unanswered": 3,
    }
    front = {
        "frames": {"received": counts["received"]},
        "dropped": {"renderer_busy": 0},
        "latency": {"request_to_received": {"since_start": {"count": n}}},
    }
    status: dict[str, Any] = {
        "t_ns": round(1e9 * t_s),
        "sources": {
            "motive_flight": {
                "frames": counts["frames"],
                "report": {"counters": {"lost": counts["lost"]}},
            },
            "imu": {"frames": n, "report": {"counters": {}}},
        },
        "renderers": {"hall": {"report": {"counters": renderer}}},
        "cameras": {"front": front},
        "streams": {"front": {"frames": n}},
    }
    room = {
        "motive": {"offered": 2 * n, "delivered": 2 * n, "frames": n, "missed_ticks": 0},
        "rate_hz": 100.0,
        "imu": {"sent": n},
    }
    link = Counter(offered=2 * n, delivered=counts["sent_frames"] + n)
    return Page(status, room, {"mocap down": link})


def test_books_that_agree_pass() -> None:
    books = balance(_page(10.0), _page(100.0), 100.0)
    assert books.problems == [] and len(books.entries) >= 8


def test_what_vanished_is_named() -> None:
    first, n = _page(10.0), 10_000
    wrong = {
        "mocap: frame numbers": {"frames": n - 400, "lost": 100},
        "renderer hall: requests without a fate": {"answered": n - 300, "received": n - 300},
        "front: answers": {"received": n - 200},
        "link mocap down": {"sent_frames": n - 100},
    }
    for name, counts in wrong.items():
        problems = balance(first, _page(100.0, **counts), 100.0).problems

        assert any(p.startswith(name) for p in problems), (name, problems)


def test_slack_is_for_what_is_on_its_way_only() -> None:
    books = Books()
    books.enter("a", 1000, 990)
    books.at_most("b", 1060, 1000)
    assert not books.problems
    books.enter("c", 1000, 900)
    books.at_most("d", 1100, 1000)
    assert books.problems == ["c: 1000 against 900", "d: 1100 of 1000"]


@pytest.mark.wire
@pytest.mark.parametrize(
    "drawn", [20_000, 32_700], ids=["low", "too near the ports that the system gives away"]
)
def test_the_radio_leads_to_the_port_that_the_bridge_was_told(
    drawn: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def quiet_ports(count: int, kind: socket.SocketKind) -> list[int]:
        return [*free_ports(count - 1, kind), drawn] if count > 1 else free_ports(1, kind)

    monkeypatch.setattr("tests.soak.plant.free_ports", quiet_ports)
    plant = Plant(tmp_path, embedded=False)
    told = yaml.safe_load((tmp_path / "soak.yaml").read_text())["stream"]["data_port"]
    assert plant.links["radio1"].spec.target[1] == plant.links["radio1"].spec.listen[1] == told
