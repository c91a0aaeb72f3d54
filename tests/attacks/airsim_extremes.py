"""A program of AirSim that makes random calls with extreme values, and sends what is no request now
and then.

``python -m tests.attacks.airsim_extremes PORT [SEED]`` attacks a bridge for a minute.
``python -m tests.attacks.airsim_extremes --calls 100000 --seed 7 --out FOLDER`` starts ``vil-bridge
airsim`` with three vehicles, makes that many calls and judges them: exit code 0 = it lives, each
vehicle had a finite pose after every burst, errors were answers with words, and its log has no
exception.
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from tests.attacks.attack import Attack, Target, moments, named, program
from tests.support.airsim_extremes import VEHICLES, ExtremeProgram
from tests.support.airsim_server import AirsimConnection, serving
from tests.support.common import wait_until
from vil_simulation.demo.child_processes import free_ports

_NESTED: Final = b"\x94\x00\x01\xa4ping" + b"\x91" * 2000
"""A request with 2,000 lists in each other: beyond what the protocol's reader takes."""
_PORT_FILE: Final = "airsim.port"


def _configure(config: dict[str, Any], folder: Path) -> None:
    port = free_ports(1, socket.SOCK_STREAM)[0]
    (folder / _PORT_FILE).write_text(str(port))
    drone = {"model": "airsim", "autopilot": {"kind": "none"}}
    names = [f"extreme_{number}" for number in range(3)]
    vehicles = {name: {**drone, "p_m": [3.0 * i, 9.0, 0.2]} for i, name in enumerate(names)}
    config["sources"]["extremes"] = {
        "type": "simulated",
        "room": "hall",
        "process": True,
        "vehicles": vehicles,
    }
    for name in names:
        config["actors"][name] = {"kind": "vehicle", "source": "extremes", "subject": name}
    served = {name: name for name in names}
    config["airsim"] = {
        "port": port,
        "scene": "empty",
        "folder": str(folder / "files"),
        "vehicles": served,
    }


def _during(target: Target) -> list[str]:
    drone = target.get("api/v1/vehicles/drone")
    return [f"the other vehicle has ended: {drone['ended']}"] if drone["ended"] else []


ATTACK: Final = Attack(
    summary="a program of AirSim makes random calls with extreme values, and nests lists in lists",
    commands=lambda target: [
        program("tests.attacks.airsim_extremes", (target.folder / _PORT_FILE).read_text()),
    ],
    counted=lambda before, after: named(before, after, "airsim", "malformed"),
    configure=_configure,
    during=_during,
    # The program flies and draws as fast as it can: the load of one client is another attack's.
    judges_rate=False,
)


def attack(port: int, seed: int) -> None:
    """Call until the harness ends this process."""
    wait_until(lambda: _is_served(port))  # its scene takes a while
    with closing(AirsimConnection(port)) as peer:
        extreme = ExtremeProgram(peer, seed)
        for _ in moments():
            with socket.create_connection(("127.0.0.1", port)) as other:
                other.sendall(_NESTED)
            extreme.burst(20)
            assert not extreme.problems, extreme.problems


def _is_served(port: int) -> bool:
    with socket.socket() as peer:
        return peer.connect_ex(("127.0.0.1", port)) == 0


def judged(calls: int, seed: int, folder: Path) -> dict[str, Any]:
    """Start a server, make the calls, and return the summary with its ``problems``."""
    begun_s = time.monotonic()
    with serving({"Vehicles": VEHICLES}, folder) as port, closing(AirsimConnection(port)) as peer:
        extreme = ExtremeProgram(peer, seed)
        while not extreme.problems and (made := extreme.calls.total()) < calls:
            extreme.run(min(1000, calls - made))
            print(f"{extreme.calls.total()} calls, {extreme.errors.total()} errors", flush=True)
    return {
        "calls": extreme.calls.total(),
        "errors": extreme.errors.total(),
        "methods": len(extreme.calls),
        "refused_since_a_vehicle_had_ended": extreme.ended,
        "seconds": round(time.monotonic() - begun_s),
        "problems": extreme.problems,
    }


def main() -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int, nargs="?", help="of a bridge to attack")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument(
        "--out", type=Path, default=Path("out/airsim_extremes"), help="for files, log and summary"
    )
    options = parser.parse_args()
    if options.port is not None:
        attack(options.port, options.seed)
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    summary = judged(options.calls, options.seed, options.out)
    (options.out / "summary.json").write_text(json.dumps(summary, indent=1))
    print(json.dumps(summary, indent=1))
    return 1 if summary["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
