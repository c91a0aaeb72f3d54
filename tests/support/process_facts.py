"""``python -m tests.support.process_facts WORD...`` prints what a program can see of its own
process, as JSON.

Ends with the number that follows ``--end-with``, or by the signal that follows ``--end-by``.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any


def _facts() -> dict[str, object]:
    main = sys.modules["__main__"]
    process = Path("/proc/self")
    status = dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines())
    descriptors = sorted(int(entry.name) for entry in (process / "fd").iterdir())
    open_ones = [fd for fd in descriptors if Path(f"/proc/self/fd/{fd}").exists()]
    streams: tuple[Any, ...] = (sys.stdin, sys.stdout, sys.stderr)
    limits = (name for name in dir(resource) if name.startswith("RLIMIT_"))
    return {
        "argv": sys.argv[1:],
        "original": sys.orig_argv,
        "command line": (process / "cmdline").read_bytes().decode().rstrip("\0").split("\0"),
        "name": (process / "comm").read_text(),
        "folder": str(Path.cwd()),
        "path": sys.path[:2],
        "environment": {name: value for name, value in os.environ.items() if name != "_"},
        "descriptors": open_ones,
        "input": sys.stdin.read(),
        "encodings": [(s.encoding, s.errors, s.line_buffering, s.write_through) for s in streams],
        "handlers": {name.name: str(signal.getsignal(name)) for name in signal.Signals},
        "ignored": status["SigIgn"],
        "blocked": status["SigBlk"],
        "threads": status["Threads"],
        "limits": {name: resource.getrlimit(getattr(resource, name)) for name in limits},
        "niceness": os.getpriority(os.PRIO_PROCESS, 0),
        "scheduling": (os.sched_getscheduler(0), os.sched_getparam(0).sched_priority),
        "leads a session": os.getsid(0) == os.getpid(),
        "leads a group": os.getpgid(0) == os.getpid(),
        "mask": status["Umask"],
        "runs as": (main.__name__, main.__spec__.name if main.__spec__ else None, main.__package__),
        "parent": os.getppid(),
    }


if __name__ == "__main__":
    print(json.dumps(_facts()))
    for word, value in zip(sys.argv, sys.argv[1:], strict=False):
        if word == "--end-with":
            sys.exit(int(value))
        if word == "--end-by":
            sys.stdout.flush()
            os.kill(os.getpid(), int(value))
            signal.pause()
