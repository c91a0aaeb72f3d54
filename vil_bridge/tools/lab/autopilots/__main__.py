"""Command line of the stand-ins: ``python -m vil_bridge.tools.lab.autopilots px4 --instance 1 --flight box``."""

from __future__ import annotations

import argparse
import sys
from typing import get_args

from vil_bridge.tools.lab.autopilots import px4_process as px4
from vil_bridge.tools.lab.autopilots.pilot import Flight
from vil_bridge.tools.lab.autopilots.process import LOOPBACK, StandInProcess


def main() -> int:
    """Run one stand-in; returns 1 after a violation, else 0."""
    parser = argparse.ArgumentParser(prog="python -m vil_bridge.tools.lab.autopilots", description=__doc__)
    kinds = parser.add_subparsers(dest="kind", required=True)
    _add_px4(kinds.add_parser("px4", help="PX4: TCP client of the simulator, in lockstep"))
    options = parser.parse_args()
    return _process(options).run()


def _process(options: argparse.Namespace) -> StandInProcess:
    return _px4(options)


def _add_common(parser: argparse.ArgumentParser, port: str) -> None:
    parser.add_argument("--host", default=LOOPBACK, help="address of the simulator")
    parser.add_argument("--port", type=int, help=f"port of the simulator ({port})")
    parser.add_argument("--instance", type=int, default=0, metavar="N", help="number of the vehicle, 0 first")
    parser.add_argument("--seconds", type=float, default=0.0, help="simulated time until it ends (0: no end)")
    parser.add_argument("--flight", choices=get_args(Flight), default="none", help="flight to make without commands")


def _add_px4(parser: argparse.ArgumentParser) -> None:
    _add_common(parser, "4560 + N")
    parser.add_argument("--reconnect", action="store_true", help="boot again when the link closes, instead of ending")
    parser.add_argument("--onboard-port", type=int, help="UDP port of an onboard computer (14540 + N; 0: none)")
    parser.add_argument("--gcs-port", type=int, default=px4.GCS_PORT, help="UDP port of a ground station (0: none)")


def _px4(options: argparse.Namespace) -> StandInProcess:
    n = options.instance
    port = px4.SIMULATOR_PORT + n if options.port is None else options.port
    onboard = px4.ONBOARD_PORT + n if options.onboard_port is None else options.onboard_port
    flags = options.seconds, options.reconnect, onboard, options.gcs_port
    return px4.Px4Process(px4.Px4Options(options.host, port, n, options.flight, *flags))


if __name__ == "__main__":
    sys.exit(main())
