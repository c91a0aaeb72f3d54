"""Command line of the stand-ins: ``vil-bridge lab autopilot px4 --instance 1 --flight box``."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from typing import get_args

from vil_simulation.autopilots.stand_ins import ardupilot_process as ardupilot
from vil_simulation.autopilots.stand_ins import betaflight_process as betaflight
from vil_simulation.autopilots.stand_ins import px4_process as px4
from vil_simulation.autopilots.stand_ins.ardupilot import RATE_HZ, ArduPilotDay
from vil_simulation.autopilots.stand_ins.pilot import Flight
from vil_simulation.autopilots.stand_ins.process import LOOPBACK, StandInProcess

_ABOUT = (
    "Stand in for an autopilot until the flight ends, Ctrl-C, or the first violation of the "
    "link's rules (exit code 3)."
)


def run_stand_in(words: Sequence[str]) -> int:
    """Run one stand-in; return its exit code, 3 after a violation.

    Raises:
        SystemExit: ``words`` are wrong (2), or ask for help (0).
    """
    parser = argparse.ArgumentParser(prog="vil-bridge lab autopilot", description=_ABOUT)
    kinds = parser.add_subparsers(dest="kind", required=True)
    _add_px4(kinds.add_parser("px4", help="PX4: TCP client of the simulator, in lockstep"))
    _add_ardupilot(kinds.add_parser("ardupilot", help="ArduPilot: UDP to the physics, in lockstep"))
    _add_betaflight(
        kinds.add_parser("betaflight", help="Betaflight: UDP on the wall clock, not in lockstep")
    )
    options = parser.parse_args(words)
    make: Callable[[argparse.Namespace], StandInProcess] = options.make
    return make(options).run()


def _add_common(parser: argparse.ArgumentParser, port: str) -> None:
    parser.add_argument("--host", default=LOOPBACK, help="address of the simulator")
    parser.add_argument("--port", type=int, help=f"port of the simulator ({port})")
    parser.add_argument(
        "--instance", type=int, default=0, metavar="N", help="number of the vehicle, 0 first"
    )
    parser.add_argument(
        "--seconds", type=float, default=0.0, help="simulated time until it ends (0: no end)"
    )
    parser.add_argument(
        "--flight", choices=get_args(Flight), default="none", help="flight to make without commands"
    )


def _add_px4(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(make=_px4)
    _add_common(parser, "4560 + N")
    parser.add_argument(
        "--reconnect",
        action="store_true",
        help="boot again when the link closes, instead of ending",
    )
    parser.add_argument(
        "--onboard-port", type=int, help="UDP port of an onboard computer (14540 + N; 0: none)"
    )
    parser.add_argument(
        "--gcs-port", type=int, default=px4.GCS_PORT, help="UDP port of a ground station (0: none)"
    )
    parser.add_argument(
        "--unanswered",
        type=int,
        metavar="N",
        help="sensor packets before its first answer (drawn from 1 to 500)",
    )
    parser.add_argument(
        "--control",
        choices=("own", "px4"),
        default="own",
        help="controllers: the stand-ins' own, or PX4's with the gains of none_iris and of "
        "PX4_PARAM_NAME=VALUE in the "
        "environment",
    )


def _port(chosen: int | None, usual: int) -> int:
    if chosen is None:
        return usual
    return chosen


def _px4(options: argparse.Namespace) -> StandInProcess:
    n = options.instance
    port = _port(options.port, px4.SIMULATOR_PORT + n)
    onboard = _port(options.onboard_port, px4.ONBOARD_PORT + n)
    flags = options.seconds, options.reconnect, onboard, options.gcs_port
    parameters = _px4_parameters() if options.control == "px4" else None
    more = options.unanswered, parameters
    return px4.Px4Process(px4.Px4Options(options.host, port, n, options.flight, *flags, *more))


def _px4_parameters() -> dict[str, float]:
    """Return the parameters that the environment sets, as PX4's start script takes them."""
    prefix = "PX4_PARAM_"
    return {
        name.removeprefix(prefix): float(value)
        for name, value in os.environ.items()
        if name.startswith(prefix)
    }


def _add_ardupilot(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(make=_ardupilot)
    _add_common(parser, "9002 + 10 N")
    parser.add_argument(
        "--command-port",
        type=int,
        help="TCP port of SERIAL0, which boot waits for (5760 + 10 N; 0: none)",
    )
    parser.add_argument(
        "--speedup",
        type=float,
        default=1.0,
        help="simulated seconds a second at most (0: no limit)",
    )
    parser.add_argument("--rate", type=int, default=RATE_HZ, help="frames a simulated second")
    parser.add_argument(
        "--channels", type=int, choices=(16, 32), default=16, help="outputs in a servo packet"
    )
    parser.add_argument(
        "--restart-at",
        type=float,
        default=0.0,
        help="simulated time at which it restarts with count 0",
    )
    parser.add_argument(
        "--burst-at", type=float, default=0.0, help="simulated time at which it sends 13 duplicates"
    )
    parser.add_argument(
        "--pause-at", type=float, default=0.0, help="simulated time at which it falls silent"
    )
    parser.add_argument(
        "--pause", type=float, default=3.0, help="wall time of the silence, seconds"
    )
    parser.add_argument(
        "--reconnect",
        action="store_true",
        help="boot again when the physics begins again at time 0",
    )
    parser.add_argument(
        "--loss", type=float, default=0.0, help="share of the datagrams that are lost, both ways"
    )
    parser.add_argument("--seed", type=int, default=0, help="of which are lost")


def _ardupilot(options: argparse.Namespace) -> StandInProcess:
    above = ardupilot.PORTS_PER_INSTANCE * options.instance
    port = _port(options.port, ardupilot.PHYSICS_PORT + above)
    commands = _port(options.command_port, ardupilot.COMMAND_PORT + above)
    events = options.restart_at, options.burst_at, options.pause_at, options.pause
    day = ArduPilotDay(options.rate, options.channels, *events, options.reconnect)
    flight = (
        options.flight,
        options.seconds,
        commands,
        options.speedup,
        day,
        options.loss,
        options.seed,
    )
    return ardupilot.ArduPilotProcess(
        ardupilot.ArduPilotOptions(options.host, port, options.instance, *flight)
    )


def _add_betaflight(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(make=_betaflight)
    parser.add_argument("--host", default=LOOPBACK, help="address that gets the motors")
    parser.add_argument(
        "--port", type=int, default=betaflight.STATE_PORT, help="port of the states"
    )
    parser.add_argument(
        "--rc-port", type=int, default=betaflight.RC_PORT, help="port of sticks and switches"
    )
    parser.add_argument(
        "--motor-port", type=int, default=betaflight.MOTOR_PORT, help="port that gets the motors"
    )
    parser.add_argument(
        "--raw-port", type=int, default=betaflight.RAW_PORT, help="port that gets the raw outputs"
    )
    parser.add_argument(
        "--seconds", type=float, default=0.0, help="time by its clock until it ends (0: no end)"
    )


def _betaflight(options: argparse.Namespace) -> StandInProcess:
    ports = options.port, options.rc_port, options.motor_port, options.raw_port
    return betaflight.BetaflightProcess(
        betaflight.BetaflightOptions(options.host, *ports, options.seconds)
    )
