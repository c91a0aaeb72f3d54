"""A flight for a VIO without hardware.

Motive, two serial ports with the IMU, the renderer and the bridge.

    python examples/vio/lab.py out/vio --port 5560
    python examples/vio/lab.py out/vio --port 5560 --simulated 70    # 70 simulated seconds

One serial port is read by the bridge, the other (``imu_onboard``) by the onboard computer. The
drone rests for a few seconds once the renderer draws ("resting" is printed), then flies at 2 m/s
until Ctrl-C. ``OUT/flight`` holds the true states as they pass. In simulated time the bridge plays
that folder, from a reader's registration on.
"""

import argparse
import asyncio
import shutil
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

from flight import MOCAP_HZ, REST_S, FlightWriter, flight

from vil_adapters.lab.motions import LabMotions, RoomMotion
from vil_adapters.lab.run import LabConfig, run_lab
from vil_adapters.lab.servers import ServerSpec
from vil_adapters.mavlink_imu.emulator import SerialImuEmulator
from vil_adapters.motions.drone import DroneMotion
from vil_bridge.bodies.walking_human import WalkMotion
from vil_bridge.client import Receiver
from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.web.client.api import BridgeApi
from vil_bridge.web.client.errors import BridgeUnreachable
from vil_simulation.demo.child_processes import ProcessGroup, free_ports

START_LIMIT_S = 60.0
LIVE_REST_S = 15.0
"""Long enough for a busy machine: mocap, clocks and the first pictures come in it."""
WRITE_EVERY_S = 0.1
HERE = Path(__file__).parent


async def fly(out: Path, motive: ServerSpec, motion: DroneMotion) -> None:
    """Film the flight and feel it until SIGINT or SIGTERM."""
    filmed = LabMotions(RoomMotion(motion, MOCAP_HZ), RoomMotion(WalkMotion(), MOCAP_HZ), motion)
    epoch_ns = now_ns()
    with FlightWriter(out / "flight", motion, epoch_ns) as truth:
        async with asyncio.TaskGroup() as group:
            others = [
                group.create_task(SerialImuEmulator(motion, epoch_ns, out / "imu_onboard").run()),
                group.create_task(write(truth, epoch_ns)),
            ]
            await run_lab(
                filmed, LabConfig(servers=(motive,), imu_link=out / "imu", epoch_ns=epoch_ns)
            )
            for task in others:
                task.cancel()


async def write(truth: FlightWriter, epoch_ns: int) -> None:
    """Write the truth as it passes, until cancelled."""
    while True:
        truth.until(now_ns() - epoch_ns)
        await asyncio.sleep(WRITE_EVERY_S)


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
                raise TimeoutError(
                    f"the renderer does not draw after {START_LIMIT_S:.0f} s: {receiver.problem}"
                )


def simulate(http: str, processes: ProcessGroup, renderer: tuple[str, ...]) -> None:
    """Start the renderer once a reader has registered; return when the flight has ended."""
    bridge = BridgeApi(http)

    def reached(done: Callable[[], bool]) -> bool:
        processes.check()
        try:
            return done()
        except BridgeUnreachable:  # it has not begun to listen
            return False

    while not reached(lambda: any(stream.subscribers for stream in bridge.get_streams().values())):
        time.sleep(0.1)
    processes.start("renderer", *renderer)
    while not reached(lambda: "has ended" in bridge.get_sources_by_name("flight").report.reason):
        time.sleep(0.5)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("out", type=Path, help="folder of the serial ports, the logs and the truth")
    parser.add_argument("--port", type=int, default=5560, help="of the stream's control channel")
    parser.add_argument(
        "--http-port", type=int, default=0, help="of the bridge's status page; 0 = any free one"
    )
    parser.add_argument("--number", type=int, default=0, help="which of the flights")
    parser.add_argument(
        "--simulated", type=float, metavar="SECONDS", help="fly so long in simulated time"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="change the configuration"
    )
    return parser.parse_args()


def main() -> None:
    """Start the processes, then fly."""
    o = arguments()
    o.out.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(o.out / "flight", ignore_errors=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    command, data = free_ports(2, socket.SOCK_DGRAM)
    poses, images, free = free_ports(3, socket.SOCK_STREAM)
    endpoint, http, motion = (
        f"tcp://127.0.0.1:{o.port}",
        o.http_port or free,
        flight(o.number, REST_S if o.simulated else LIVE_REST_S),
    )
    values = {
        "renderers.hall.pose_port": poses,
        "renderers.hall.image_port": images,
        "stream.bind": endpoint,
        "http.port": http,
    }
    if o.simulated:
        with FlightWriter(o.out / "flight", motion, NS_PER_S) as writer:
            writer.until(round(o.simulated * NS_PER_S))
        values["sources.flight.path"] = (o.out / "flight").absolute()
    else:
        values |= {"sources.motive.command_port": command, "sources.imu.device": o.out / "imu"}
    sets = [
        word for item in [f"{k}={v}" for k, v in values.items()] + o.set for word in ("--set", item)
    ]
    renderer = "renderer", "--input-port", str(poses), "--output-port", str(images)
    with ProcessGroup(o.out) as processes:
        processes.start(
            "bridge", "run", str(HERE / ("simulated.yaml" if o.simulated else "bridge.yaml")), *sets
        )
        if o.simulated:
            simulate(f"http://127.0.0.1:{http}", processes, renderer)
            return
        processes.start("renderer", *renderer)
        wait_for_renderer(endpoint, processes)
        print(f"resting for {LIVE_REST_S:.0f} s; pictures at {endpoint}", flush=True)  # noqa: T201
        asyncio.run(fly(o.out, ServerSpec.parse("motive", f"flight@{command},{data}"), motion))


if __name__ == "__main__":
    main()
