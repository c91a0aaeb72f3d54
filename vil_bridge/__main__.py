"""``python -m vil_bridge`` is ``vil-bridge``."""

from __future__ import annotations

from vil_bridge.cli.main import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
