"""How long a source has been silent: what ends a bridge that requires it."""

from __future__ import annotations

import numpy as np

from vil_bridge.config.base import PluginConfig
from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.types import ImuSample
from vil_bridge.daemon.sources import SourceRunner
from vil_bridge.registry import resolve


def line() -> SourceRunner:
    model: type[PluginConfig] = resolve("sources")["mavlink-imu"]()
    return SourceRunner("imu", model(type="mavlink-imu"))


def test_a_source_that_goes_from_one_trouble_to_the_next_is_silent_all_the_time() -> None:
    imu, t_ns, silent_s = line(), now_ns(), 0.0
    for look in range(40):
        if look % 2:
            imu.status.retrying("hung up")
        else:
            imu.status.waiting("no answer")
        t_ns += NS_PER_S // 4
        silent_s = imu.silent_s(t_ns)
    assert 9.9 < silent_s < 10.1
    imu.status.running()
    assert imu.silent_s(t_ns + NS_PER_S) == 0.0


def test_a_process_that_stood_still_blames_no_source() -> None:
    imu, t_ns = line(), now_ns()
    imu.status.running()
    assert imu.silent_s(t_ns) == 0.0
    imu.status.waiting("silent since the process was stopped")
    assert imu.silent_s(t_ns + 3600 * NS_PER_S) <= 1.0


def test_what_a_source_read_and_did_not_hand_on_is_received() -> None:
    """Of five frames at one wake-up a source hands on the newest.

    A share of lost ones is of all of them.
    """
    imu = line()
    imu.into_world(ImuSample("imu", None, now_ns(), np.zeros(3), np.zeros(3)))
    imu.status.counters["superseded"] += 4
    assert imu.received == 5
