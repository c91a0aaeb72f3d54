"""`vil-bridge bench fleet`: 100 simulated and 2 recorded vehicles in one world, in real time."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import AsyncExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from vil_adapters.recording.config import RecordingConfig
from vil_adapters.recording.source import RecordingSource
from vil_benchmarks.recordings import RECORDINGS, data_folder
from vil_benchmarks.report import Row, percentile_row
from vil_bridge.config.root import RealtimeConfig
from vil_bridge.core.clock import machine_ns
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import ActorKind, SourceEvent, SourceFrame
from vil_bridge.daemon.realtime import prepare_process
from vil_bridge.interfaces.ports import PoseSource, SourceContext
from vil_bridge.runtime.supervisor import Status
from vil_bridge.world.actors import Actor
from vil_bridge.world.world import World
from vil_simulation.demo.child_processes import child
from vil_simulation.source.config import SimulatedConfig
from vil_simulation.source.source import SimulatedSource
from vil_simulation.source.stepper import WakeupTimer

_VEHICLES: Final = 100
_SECONDS: Final = 60
_RATE_HZ: Final = 200
_STEP_HZ: Final = 960
_STEP_NS: Final = 1e9 / _STEP_HZ
_RECORDED: Final = ("broad_12", "broad_07")
_CHILD: Final = b"vil_simulation.source.worker"


def bench_fleet(data: Path | None) -> list[Row]:
    """Return the whole measurement; about 70 s.

    Raises:
        ConfigError: the recordings are absent.
    """
    folder = data_folder(data, "fleet")
    prepare_process(RealtimeConfig().fifo_priority)  # as the daemon does; children inherit it
    recorded = {name: folder / RECORDINGS[name] for name in _RECORDED}
    return measure_fleet(recorded, _VEHICLES, _SECONDS)


def measure_fleet(recorded: dict[str, Path], vehicles: int, seconds: int) -> list[Row]:
    """Fly so many vehicles for so long, each on a circle of its own, together with recordings.

    ``fleet_steps_per_vehicle`` is taken at the pose whose stamp is the start plus the duration;
    lateness is from a step's instant to the wake-up that makes it, next to that of a loop on the
    same timer that does nothing.
    """
    with child(_empty_loop) as empty:
        empty.recv()
        found = asyncio.run(_fly(recorded, vehicles, seconds, empty))
    late_us = found["late_us"]
    idle_us = found["idle_us"]
    p50 = [
        percentile_row(f"{n}_us_p50", v, 50, "us")
        for n, v in (("fleet_late", late_us), ("empty_late", idle_us))
    ]
    ratio = None if not p50[0].value or not p50[1].value else p50[0].value / p50[1].value
    return [
        Row("fleet_steps_per_vehicle", found["steps"], "steps", vehicles),
        Row("fleet_steps_caught_up", found["late"], "steps", vehicles),
        *p50,
        Row("fleet_late_over_empty_p50", ratio, "ratio", len(late_us)),
        percentile_row("fleet_late_us_p95", late_us, 95, "us"),
        percentile_row("empty_late_us_p95", idle_us, 95, "us"),
        Row("fleet_cpu_share_steps", found["cpu_steps"], "cores", 1),
        Row("fleet_cpu_share_world", found["cpu_world"], "cores", 1),
        Row("fleet_poses_in_world", found["poses"], "frames", len(recorded) + 1),
    ]


async def _fly(
    recorded: dict[str, Path], vehicles: int, seconds: int, empty: Connection
) -> dict[str, Any]:
    entry = {
        "model": "flightgoggles",
        "count": vehicles,
        "spacing_m": 5.0,
        "autopilot": {"kind": "circle"},
    }
    config = {
        "type": "simulated",
        "process": True,
        "rate_hz": _RATE_HZ,
        "vehicles": {"swarm": entry},
    }
    simulated = SimulatedSource("sim", SimulatedConfig.model_validate(config))
    others = [RecordingSource(name, RecordingConfig(path=path)) for name, path in recorded.items()]
    actors = [Actor(name, ActorKind.VEHICLE, "sim", name) for name in simulated.handler.subjects]
    actors += [Actor(o.name, ActorKind.VEHICLE, o.name, o.recording.subjects[0]) for o in others]
    sources: list[PoseSource] = [simulated, *others]
    context = SourceContext()
    world = World({source.name: Transform.identity() for source in sources}, actors)
    status = Status("sim")
    last = _RATE_HZ * seconds
    late_us: list[float] = []
    poses = [0]
    cpu = [0.0, 0.0]
    done = asyncio.Event()
    found: dict[str, Any] = {}

    def take(event: SourceEvent) -> None:
        world.ingest(event)
        poses[0] += isinstance(event, SourceFrame)
        if not isinstance(event, SourceFrame) or event.source != "sim" or done.is_set():
            return
        late_us.append(1e3 * status.facts["behind_ms"])
        if event.frame_number == 1:
            cpu[:] = time.process_time(), _cpu_s()
            empty.send("begin")
        elif event.frame_number == last:
            found.update(
                steps=status.counters["steps"], late=status.counters["late"], poses=poses[0]
            )
            found.update(
                cpu_world=(time.process_time() - cpu[0]) / seconds,
                cpu_steps=(_cpu_s() - cpu[1]) / seconds,
            )
            done.set()

    async with AsyncExitStack() as stack:
        group = await stack.enter_async_context(asyncio.TaskGroup())
        states = (status, *(Status(other.name) for other in others))
        tasks = [
            group.create_task(s.run(take, state, context))
            for s, state in zip(sources, states, strict=True)
        ]
        await done.wait()
        for task in tasks:
            task.cancel()
    empty.send("report")
    return found | {"late_us": late_us, "idle_us": await asyncio.to_thread(empty.recv)}


def _empty_loop(conn: Connection) -> None:
    """Wake as often as the fleet does and record the lateness; report it on request."""
    conn.send("ready")
    conn.recv()
    timer = WakeupTimer()
    late_us = []
    start_ns = machine_ns()
    step = 0
    while not conn.poll():
        step = int((machine_ns() - start_ns) / _STEP_NS) + 1
        due_ns = start_ns + round(step * _STEP_NS)
        timer.sleep(due_ns)
        late_us.append((machine_ns() - due_ns) / 1e3)
    conn.recv()
    conn.send(late_us)
    conn.recv()


def _cpu_s() -> float:
    """Return the processor time of the processes that step vehicles for this one."""
    return sum(_of(stat) for stat in Path("/proc").glob("[0-9]*/stat")) / os.sysconf("SC_CLK_TCK")


def _of(stat: Path) -> int:
    try:
        words = stat.read_text().rpartition(")")[2].split()
        ours = int(words[1]) == os.getpid() and _CHILD in (stat.parent / "cmdline").read_bytes()
    except OSError:
        return 0
    return int(words[11]) + int(words[12]) if ours else 0
