"""Serial lines."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from vil_bridge.tools.discovery import serial_devices
from vil_bridge.tools.doctor.finding import Finding, fail, ok, warn
from vil_bridge.tools.doctor.network import open_files, process_name

__all__ = ["check_serial"]


def check_serial(what: str, device: str) -> Finding:
    """Check that a configured serial line exists, may be opened, and is not used by another program."""
    name = f"serial line of {what}"
    path = Path(device)
    if not path.exists():
        here = ", ".join(serial_devices()) or "none"
        cure = f"plug the autopilot in and wait for its boot; serial lines here: {here}"
        if path.is_symlink():
            return fail(name, f"{device} points to {path.readlink()}, which is not there", cure)
        return fail(name, f"{device} does not exist", cure)
    if not stat.S_ISCHR(path.stat().st_mode):
        return fail(name, f"{device} is not a serial line", "give the device, best one of /dev/serial/by-id")
    if not os.access(path, os.R_OK | os.W_OK):
        return fail(name, f"no permission to open {device}", "sudo usermod -aG dialout $USER, then log in again")
    real = str(path.resolve())
    others = sorted({pid for pid, target in open_files() if target == real and pid != os.getpid()})
    if others:
        who = ", ".join(process_name(pid) for pid in others)
        cure = "end it (ModemManager, a ground station, another bridge?): two readers steal each other's bytes"
        return warn(name, f"{device} is also open in {who}", cure)
    return ok(name, f"{device} can be opened")
