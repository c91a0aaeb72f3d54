"""``python -m tests.virtual.run --seed 7 --seconds 60`` runs a whole bridge in a virtual world.

Everything runs in this process and in the time of its machine (:mod:`tests.virtual.machine`). The
digest that it prints covers the bridge's events, the headers of the pictures that readers got and
the recording: it is the same for the same seed. The exit code is 1 when something did not hold.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from pathlib import Path

from tests.virtual.repeatable import execute_again


def main() -> int:
    """Run the world, print its results as a line of JSON and return the exit code."""
    parser = argparse.ArgumentParser(description="Run a whole bridge in a virtual world.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60.0, help="of simulated time")
    parser.add_argument("--trace", default="", help="file for events and headers")
    parser.add_argument("--planted", default="", help="fault of tests/virtual/planted.py")
    options = parser.parse_args()
    execute_again("tests.virtual.run")
    from tests.virtual.prepared import run_seed

    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    trace_file = Path(options.trace).absolute() if options.trace else None
    result = run_seed(options.seed, options.seconds, options.planted, trace_file)
    print(json.dumps(result), flush=True)
    return int(bool(result["failures"]))


if __name__ == "__main__":
    os._exit(main())  # threads of the machine wait for their turn for ever
