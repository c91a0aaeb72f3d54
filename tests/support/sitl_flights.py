"""Flights of strict stand-ins, which are processes, with the steps made in the test, as fast as
they answer.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from typing import Any, Final, Literal

from tests.support.common import free_port, wait_until
from tests.support.programs import Program
from tests.support.sitl import counters, stand_in
from vil_bridge.core.bridge_time import TimeMapping
from vil_bridge.core.clock import machine_ns
from vil_simulation.source.config import SimulatedConfig
from vil_simulation.source.hosts import ready_simulation
from vil_simulation.source.ipc import Order, Stop
from vil_simulation.source.simulation import Simulation
from vil_simulation.source.stepper import Stepper, WakeupTimer

Kind = Literal["px4", "ardupilot"]

RATES_HZ: Final = {"px4": 250, "ardupilot": 400}
STEP_HZ: Final = {"px4": 1000, "ardupilot": 1200}
_FASTEST: Final = 1000.0
_TIMEOUT_MS: Final = 60_000.0
"""Of a stand-in that a loaded machine does not let run."""


class SitlFlight:
    """One vehicle and its stand-in; :meth:`fly` makes the steps.

    Args:
        kind: of the autopilot. seed: of all noise. pose: of motion capture, None = none.
        autopilot: further keys of its configuration.

    Attributes:
        pilot_port: ArduPilot's SERIAL0. simulation: of the vehicle. program: the stand-in, once it
            flies.
        start_ns: bridge time of step 0.
    """

    def __init__(
        self,
        kind: Kind,
        *,
        seed: int = 5,
        pose: dict[str, object] | None = None,
        **autopilot: object,
    ) -> None:
        self._kind: Final[Kind] = kind
        self._port = free_port(socket.SOCK_STREAM if kind == "px4" else socket.SOCK_DGRAM)
        self.pilot_port = free_port(socket.SOCK_STREAM, 2, 3)
        if kind == "ardupilot" and pose is not None:
            pose = pose | {"port": self.pilot_port + 2}
        entry = {
            "model": "flightgoggles",
            "preset": "autopilot_quad_x",
            "p_m": (0.0, 0.0, 0.0),
            "autopilot": {
                "kind": kind,
                "port": self._port,
                "rate_hz": RATES_HZ[kind],
                "timeout_ms": _TIMEOUT_MS,
                "pose": pose,
                **autopilot,
            },
        }
        source = {
            "type": "simulated",
            "step_hz": STEP_HZ[kind],
            "seed": seed,
            "vehicles": {"quad": entry},
        }
        self.simulation: Simulation = ready_simulation(SimulatedConfig.model_validate(source))
        self.program: Program | None = None
        self.start_ns = 0

    def fly(
        self, *words: object, orders: Callable[[], Iterable[Order]] = tuple, speed: float = _FASTEST
    ) -> dict[str, Any]:
        """Fly until the stand-in ends; return what it counted.

        Args:
            words: further options of the stand-in. orders: yields orders of each turn of the
                stepper.
            speed: simulated seconds per second, at most.
        """
        with self.started(*words) as program, closing(WakeupTimer()) as timer:
            self.start_ns = machine_ns()
            mapping = TimeMapping(self.start_ns, self.start_ns, speed)

            def due() -> Iterable[Order]:
                return orders() if program.poll() is None else [Stop()]

            Stepper(self.simulation, self.start_ns, mapping, due, lambda _batch: None, timer).run()
            return counters(program)

    @contextmanager
    def stepped(self, *words: object) -> Iterator[tuple[Callable[[], object], Program]]:
        """Start the stand-in; yield what makes the steps of one sample, and the stand-in."""
        steps = STEP_HZ[self._kind] // RATES_HZ[self._kind]
        with self.started(*words) as program:
            self.simulation.programs.open(holds=True)
            try:
                yield lambda: self.simulation.advance(self.simulation.steps + steps), program
            finally:
                self.simulation.programs.close()

    @contextmanager
    def started(self, *words: object) -> Iterator[Program]:
        """Start the stand-in, and connect to ArduPilot's SERIAL0, which it waits for."""
        if self._kind == "ardupilot":
            words = (
                "--command-port",
                self.pilot_port,
                "--speedup",
                0,
                "--rate",
                RATES_HZ["ardupilot"],
                *words,
            )
        with stand_in(self._kind, self._port, *words) as self.program, socket.socket() as client:
            if self._kind == "ardupilot" and self.pilot_port:
                wait_until(lambda: client.connect_ex(("127.0.0.1", self.pilot_port)) == 0)
            yield self.program
