"""Live twins: distances over the window, an alarm once per episode, and what the bridge says of
them.
"""

from __future__ import annotations

import logging

import numpy as np
import pytest

from vil_bridge.config.load import load_text
from vil_bridge.core.bridge_time import bridge_clock
from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.geometry import Transform, q_exp
from vil_bridge.core.types import ActorKind, SourceFrame
from vil_bridge.monitoring.prometheus import metrics_registry
from vil_bridge.offline.playback import Timeline
from vil_bridge.registry import resolve
from vil_bridge.services.twins.monitor import TwinMonitor, TwinPair
from vil_bridge.services.twins.view import TwinView
from vil_bridge.web.schemas.status import BridgeStatus
from vil_bridge.world.actors import Actor
from vil_bridge.world.world import World

LATE_S = 0.06


class Room:
    """A world with a vehicle at 100 Hz, and its twin 60 ms later with an offset."""

    def __init__(self) -> None:
        here = Transform.identity()
        actors = [
            Actor(n, ActorKind.VEHICLE, s, n) for n, s in (("drone", "mocap"), ("drone_sim", "sim"))
        ]
        self.world = World({"mocap": here, "sim": here}, actors)
        self.monitor = TwinMonitor(self.world, [TwinPair("pair", "drone", "drone_sim", 5.0, 0.5)])
        self.t_ns = 1000 * NS_PER_S
        self.number = 0

    def see(self, source: str, subject: str, s: float, offset_m: float) -> None:
        p_m = np.array([[2.0 * np.sin(0.9 * s), 1.5 * np.sin(1.3 * s) + offset_m, 1.5]])
        q = q_exp(np.array([[0.0, 0.0, 0.2 * s]]))
        frame = SourceFrame(
            source, self.number, None, self.t_ns, (subject,), p_m, q, np.array([True])
        )
        self.world.ingest(frame)

    def fly(self, seconds: float, offset_m: float, *, twin: bool = True) -> None:
        for _ in range(round(100 * seconds)):
            self.t_ns += NS_PER_S // 100
            self.number += 1
            bridge_clock().stand_at(self.t_ns)
            s = self.t_ns / NS_PER_S
            self.see("mocap", "drone", s, 0.0)
            if twin:
                self.see("sim", "drone_sim", s - LATE_S, offset_m)
            if self.number % 20 == 0:
                self.monitor.check()


def test_distances_delay_and_one_alarm_per_episode(caplog: pytest.LogCaptureFixture) -> None:
    with Timeline().running(), caplog.at_level(logging.INFO):
        room = Room()
        room.fly(7.0, 0.2)
        found = room.monitor.distances["pair"]
        assert found is not None
        assert found.delay_s == pytest.approx(LATE_S, abs=2e-3)
        assert 0.2 < found.position_rms_m < 0.4
        assert found.hausdorff_m < 0.25
        assert found.attitude_rms_rad == pytest.approx(0.2 * LATE_S, rel=0.05)
        assert found.compared_s == pytest.approx(5.0, abs=0.3)
        assert not room.monitor.alarms
        for offset_m, alarms in ((1.0, {"pair"}), (0.2, set()), (1.0, {"pair"})):
            room.fly(8.0, offset_m)
            assert room.monitor.alarms == alarms
        assert room.monitor.episodes == {"pair": 2}
        assert sum("more than 0.5 m" in record.getMessage() for record in caplog.records) == 2
        room.fly(7.0, 1.0, twin=False)
        assert room.monitor.distances == {"pair": None}
        assert not room.monitor.alarms


def test_metrics_of_twins() -> None:
    seen = TwinView("drone", "drone_sim", 10.0, 0.5, True, 3, 9.5, 0.7, 0.6, 0.02, 0.8, None)
    lost = TwinView("a", "b", 10.0, 0.5, False, 0)
    now = BridgeStatus(
        t_ns=1,
        name="lab",
        version="1",
        uptime_s=1.0,
        ready=True,
        twins={"pair": seen, "lost": lost},
    )
    value = metrics_registry(lambda: now).get_sample_value
    assert value("vil_twin_alarm", {"twin": "pair"}) == 1.0
    assert value("vil_twin_alarms_total", {"twin": "pair"}) == 3.0
    assert value("vil_twin_distance_metres", {"twin": "pair"}) == 0.6
    assert value("vil_twin_hausdorff_metres", {"twin": "pair"}) == 0.8
    assert value("vil_twin_delay_seconds", {"twin": "pair"}) is None
    assert value("vil_twin_distance_metres", {"twin": "lost"}) is None


@pytest.mark.parametrize(
    ("pair", "problem"),
    [
        ("{vehicle: drone, twin: dron}", "no actor is named 'dron'"),
        ("{vehicle: drone, twin: drone}", "another actor"),
    ],
)
def test_pairs_without_two_actors_are_refused(pair: str, problem: str) -> None:
    text = f"""
version: 1
rooms: {{hall: {{}}}}
sources: {{sim: {{type: simulated, room: hall, vehicles: {{drone: {{model: flightgoggles}}}}}}}}
actors: {{drone: {{kind: vehicle, source: sim, subject: drone}}}}
twins: {{pair: {pair}}}
"""
    with pytest.raises(ConfigError, match=problem):
        load_text(text, "test", resolve=resolve)
