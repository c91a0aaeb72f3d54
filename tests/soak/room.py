"""One room of the emulated lab as a process that tells its counts.

``python -m tests.soak.room ROOM COMMAND,DATA``.

Each second a JSON line goes to stdout: what the emulators of the mocap server and of the IMU did so
far.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
from pathlib import Path

from vil_adapters.emulation.emulator import Emulator
from vil_adapters.lab.motions import LabMotions
from vil_adapters.lab.servers import ServerSpec
from vil_adapters.mavlink_imu.emulator import SerialImuEmulator
from vil_bridge.monitoring.heap_profile import watch_heap


async def serve(room: str, ports: str, imu: Path | None, epoch_ns: int, faults: str) -> None:
    from vil_bridge.interfaces.faults import Faults

    filmed = LabMotions.simulated()
    filming = filmed.flight if room == "flight" else filmed.actor
    spec = ServerSpec.parse("motive", f"{room}@{ports}")
    spec = ServerSpec(
        spec.kind, spec.room, spec.host, spec.port, spec.second_port, Faults.parse(faults)
    )
    server = spec.open(filming.motion, filming.rate_hz, epoch_ns)
    assert isinstance(server, Emulator)
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(server)
        line: SerialImuEmulator | None = None
        if imu is not None:
            assert filmed.imu is not None
            line = stack.enter_context(SerialImuEmulator(filmed.imu, epoch_ns, imu))
        while True:
            await asyncio.sleep(1.0)
            told = {"motive": dict(server.counters), "rate_hz": filming.rate_hz}
            if line is not None:
                told["imu"] = {"sent": line.sent, "thrown_away": line.dropped}
            print(json.dumps(told), flush=True)


def main() -> None:
    watch_heap()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("room", choices=("flight", "actor"))
    parser.add_argument("ports")
    parser.add_argument("--imu", type=Path)
    parser.add_argument("--epoch-ns", type=int, required=True)
    parser.add_argument("--faults", default="")
    options = parser.parse_args()
    asyncio.run(serve(options.room, options.ports, options.imu, options.epoch_ns, options.faults))


if __name__ == "__main__":
    main()
