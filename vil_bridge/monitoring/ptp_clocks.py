"""PTP hardware clocks of this computer, as far as the kernel lists them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_ROOT: Final = Path("/")


def ptp_clocks(root: Path = _ROOT) -> str:
    """Return the devices with the names of their clocks, such as ``ptp0 (igb-eth0)``.

    ``none`` where there are none.

    Args:
        root: where /sys is.
    """
    found = []
    for device in sorted(
        (root / "sys/class/ptp").glob("ptp*"), key=lambda device: (len(device.name), device.name)
    ):
        try:
            name = (device / "clock_name").read_text().strip()
        except OSError:  # just removed
            continue
        found.append(f"{device.name} ({name})")
    return ", ".join(found) or "none"
