"""Programs one after the other, each in a process of its own, forked from one that has imported the
client.

Run as `python serve.py airsim` or `python serve.py cosysairsim`. A line of standard input is a
program, as JSON: its file's name without `.py`, its arguments, and a file for what it prints. The
answer is a line with its exit code.
"""

import importlib
import json
import os
import runpy
import sys
from pathlib import Path

import numpy  # noqa: F401 - all programs import it


def run(kind, arguments, output):
    """Become the program."""
    fd = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for taken, given in ((0, nothing), (1, fd), (2, fd)):
        os.dup2(given, taken)
    file = Path(__file__).with_name(f"{kind}.py")
    sys.argv = [str(file), *arguments]
    runpy.run_path(str(file), run_name="__main__")


if __name__ == "__main__":
    sys.modules["airsim"] = importlib.import_module(sys.argv[1])
    sys.path.insert(0, str(Path(__file__).parent))
    while line := sys.stdin.buffer.readline():
        kind, arguments, output = json.loads(line)
        child = os.fork()
        if child == 0:
            run(kind, arguments, output)
            sys.exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
