"""``python -m tests.soak.short_ledger ARGUMENTS``.

``vil-bridge`` whose frame ledgers are full after a minute or two.

Ten thousand frames take most of an hour to come, and until then they look like a leak.
"""

from __future__ import annotations

from vil_bridge.__main__ import main
from vil_bridge.pipeline import frame_ledger as ledger

_FRAMES = 500

if __name__ == "__main__":
    ledger.RETAINED_FRAMES = _FRAMES  # type: ignore[misc]
    main()
