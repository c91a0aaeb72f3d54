"""Priorities of the daemon's threads, seen from a process of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.support.common import PATIENCE_S
from vil_bridge.kernel.library import KERNEL, description
from vil_bridge.monitoring.ptp_clocks import ptp_clocks

pytestmark = pytest.mark.process


CHILD = """
import gc, json, os, sys, threading
from vil_bridge.daemon.realtime import exempt_from_scheduler, prepare_process

os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))  # whatever the tests run at
told, asked = {}, threading.Event()

def look(name):
    told[name] = os.sched_getscheduler(0), os.sched_getparam(0).sched_priority

def work():
    asked.wait()
    look("http")
    worker = threading.Thread(target=look, args=("worker",))
    worker.start()
    worker.join()

thread = threading.Thread(target=work)
thread.start()
gc.set_threshold(10_000, 10, 10)
made = [[] for _ in range(10_000)]
told["all"] = prepare_process(int(sys.argv[1]))
told["facts"] = told["all"]["scheduling"]
exempt_from_scheduler(thread)
asked.set()
thread.join()
look("loop")
told["collector"] = gc.get_freeze_count() > 10_000, gc.get_threshold()[0]
print(json.dumps(told))
"""


@pytest.mark.skipif(not hasattr(os, "sched_setscheduler"), reason="no real-time scheduling here")
def test_what_shares_the_interpreter_with_real_time_threads_is_not_put_aside() -> None:
    told = told_by("5")
    if told["facts"] != "FIFO 5":
        pytest.skip(f"scheduling is {told['facts']} here")
    assert told["loop"] == [os.SCHED_FIFO, 5]
    assert told["http"] == [os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, 1]
    assert told["worker"] == [os.SCHED_OTHER, 0]


@pytest.mark.skipif(not hasattr(os, "sched_setscheduler"), reason="no real-time scheduling here")
def test_without_real_time_threads_nothing_changes() -> None:
    told = told_by("0")
    assert told["loop"] == told["http"] == told["worker"]


def test_what_a_start_made_is_never_looked_at_again_and_what_comes_is_collected_soon() -> None:
    assert told_by("0")["collector"] == [True, 700]


def test_the_facts_name_the_ptp_clocks_and_the_compiled_kernel() -> None:
    told = told_by("0")["all"]
    assert isinstance(told, dict) and told["ptp_clocks"] == ptp_clocks()
    assert told["kernel"] == description()
    assert (
        told["kernel"] == "compiled"
        if KERNEL is not None
        else told["kernel"].startswith("absent (")
    )


def told_by(priority: str) -> dict[str, object]:
    child = subprocess.run(
        [sys.executable, "-c", CHILD, priority], capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert child.returncode == 0, child.stderr
    told: dict[str, object] = json.loads(child.stdout)
    return told
