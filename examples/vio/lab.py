"""A flight for a VIO without hardware: Motive, two serial ports with the IMU, the renderer and the bridge.

    python examples/vio/lab.py out/vio --port 5560

One serial port is read by the bridge, the other (``imu_onboard``) by the onboard computer. The drone rests for a few
seconds once the renderer draws ("resting" is printed), then flies at 2 m/s until Ctrl-C.
"""

import argparse
import asyncio
import signal
import socket
import time
from pathlib import Path

from vil_adapters.mavlink_imu.emulator import SerialImuEmulator
from vil_adapters.simulated import BRISK, DroneMotion, WalkMotion
from vil_bridge.client import Receiver
from vil_bridge.core.clock import now_ns
from vil_bridge.tools.child_processes import ProcessGroup, free_ports
from vil_bridge.tools.lab.motions import LabMotions, RoomMotion
from vil_bridge.tools.lab.run import LabConfig, run_lab
from vil_bridge.tools.lab.servers import ServerSpec

REST_S = 5.0
IMU_HZ, MOCAP_HZ = 250, 120.0
START_LIMIT_S = 60.0
CONFIG = Path(__file__).with_name("bridge.yaml")


async def fly(out: Path, motive: ServerSpec) -> None:
    """Film the flight and feel it until SIGINT or SIGTERM."""
    motion = DroneMotion(path=BRISK, rest_s=REST_S, imu_rate_hz=IMU_HZ)
    filmed = LabMotions(RoomMotion(motion, MOCAP_HZ), RoomMotion(WalkMotion(), MOCAP_HZ), motion)
    epoch_ns = now_ns()
    async with asyncio.TaskGroup() as group:
        onboard = group.create_task(SerialImuEmulator(motion, epoch_ns, out / "imu_onboard").run())
        await run_lab(filmed, LabConfig(servers=(motive,), imu_link=out / "imu", epoch_ns=epoch_ns))
        onboard.cancel()


def wait_for_renderer(endpoint: str, processes: ProcessGroup) -> None:
    """Return once a first picture came.

    Raises:
        TimeoutError: none did.
        VilBridgeError: one of the processes has ended.
    """
    deadline_s = time.monotonic() + START_LIMIT_S
    with Receiver(endpoint, camera="observer", variant="raw", name="lab") as receiver:
        while receiver.next(0.2) is None:
            processes.check()
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"the renderer does not draw after {START_LIMIT_S:.0f} s: {receiver.problem}")


def main() -> None:
    """Start the processes, then fly."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("out", type=Path, help="folder of the serial ports and the logs")
    parser.add_argument("--port", type=int, default=5560, help="of the stream's control channel")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change the configuration")
    o = parser.parse_args()
    o.out.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    command, data = free_ports(2, socket.SOCK_DGRAM)
    poses, images, http = free_ports(3, socket.SOCK_STREAM)
    endpoint = f"tcp://127.0.0.1:{o.port}"
    values = {
        "sources.motive.command_port": command,
        "sources.imu.device": o.out / "imu",
        "renderers.hall.pose_port": poses,
        "renderers.hall.image_port": images,
        "stream.bind": endpoint,
        "http.port": http,
    }
    sets = [word for item in [f"{k}={v}" for k, v in values.items()] + o.set for word in ("--set", item)]
    with ProcessGroup(o.out) as processes:
        processes.start("renderer", "renderer", "--input-port", str(poses), "--output-port", str(images))
        processes.start("bridge", "run", str(CONFIG), *sets)
        wait_for_renderer(endpoint, processes)
        print(f"resting for {REST_S:.0f} s; pictures at {endpoint}", flush=True)  # noqa: T201
        asyncio.run(fly(o.out, ServerSpec.parse("motive", f"flight@{command},{data}")))


if __name__ == "__main__":
    main()
