"""``python -m tests.virtual.run --seed 7 --seconds 60`` runs a whole bridge in a virtual world.

Everything runs in this process and in the time of its machine (:mod:`tests.virtual.machine`). The digest that it prints
covers the bridge's events, the headers of the pictures that readers got and the recording: it is the same for the same
seed. The exit code is 1 when something did not hold.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys

_PARSER = argparse.ArgumentParser(description="Run a whole bridge in a virtual world.")
_PARSER.add_argument("--seed", type=int, default=1)
_PARSER.add_argument("--seconds", type=float, default=60.0, help="of simulated time")
_PARSER.add_argument("--trace", default="", help="file for events and headers")
_PARSER.add_argument("--planted", default="", help="fault of tests/virtual/planted.py")
_OPTIONS = _PARSER.parse_args()

# Without them, sets would have an order of their own.
_SETTINGS = {"PYTHONHASHSEED": "0", "MALLOC_ARENA_MAX": "1", "OPENBLAS_NUM_THREADS": "1"}
if any(os.environ.get(name) != value for name, value in _SETTINGS.items()):
    os.environ |= _SETTINGS
    again = [sys.executable, "-m", "tests.virtual.run", *sys.argv[1:]]
    os.execvp("setarch", ["setarch", "--addr-no-randomize", *again])

# Before all other modules, which take clocks, locks and polls when they are imported.
from tests.virtual import machine as virtual_machine  # noqa: E402

MACHINE = virtual_machine.install(_OPTIONS.seed)

from tests.virtual import zeromq  # noqa: E402
from vil_adapters.simulated.network_namespace import enter_own_network  # noqa: E402
from vil_bridge.core import clock  # noqa: E402
from vil_bridge.world.kernel.library import KERNEL  # noqa: E402

enter_own_network()
zeromq.install(MACHINE)
virtual_machine.replace(
    clock, open_timerfd=lambda: os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC), arm_timerfd=MACHINE.arm
)
if KERNEL is not None:
    virtual_machine.set_clock_of(KERNEL, MACHINE.now_ns)

import asyncio  # noqa: E402
import hashlib  # noqa: E402
import json  # noqa: E402
import logging  # noqa: E402
import tempfile  # noqa: E402
from pathlib import Path  # noqa: E402

from tests.virtual.planted import PLANTED  # noqa: E402
from tests.virtual.world import World  # noqa: E402


def main() -> int:
    """Run the world, print its results as a line of JSON and return the exit code."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    if _OPTIONS.planted:
        PLANTED[_OPTIONS.planted]()
    trace_file = Path(_OPTIONS.trace).absolute() if _OPTIONS.trace else None
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        world = World(_OPTIONS.seed, Path())
        asyncio.run(world.run(_OPTIONS.seconds))
    used = resource.getrusage(resource.RUSAGE_SELF)
    trace = "\n".join(world.trace)
    if trace_file is not None:
        trace_file.write_text(trace, encoding="utf-8")
    result = {
        "seed": _OPTIONS.seed,
        "simulated_s": _OPTIONS.seconds,
        "processor_s": round(used.ru_utime + used.ru_stime, 1),
        "pictures": dict(sorted(world.pictures.items())),
        "recorded_bytes": len(world.recording),
        "digest": hashlib.sha256(trace.encode() + world.recording).hexdigest(),
        "failures": world.failures[:20],
    }
    print(json.dumps(result), flush=True)
    return int(bool(world.failures))


os._exit(main())  # threads of the machine wait for their turn for ever
