"""``python -m tests.soak.traced FILE ARGUMENTS``.

A script that ``vil_bridge.monitoring.heap_profile`` observes.
"""

from __future__ import annotations

import runpy
import sys

from vil_bridge.monitoring.heap_profile import watch_heap

if __name__ == "__main__":
    watch_heap()
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
