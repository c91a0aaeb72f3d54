"""Limits and counters of the Linux kernel.

Every check reads files below a root that tests replace.
"""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
from pathlib import Path
from typing import Final

from vil_bridge.monitoring.ptp_clocks import ptp_clocks
from vil_bridge.setup.doctor.finding import Finding, fail, ok, warn

ROOT: Final = Path("/")
RECEIVE_BUFFER_BYTES: Final = 1 << 20
"""Receive buffer that the adapters ask for.

A burst of 100 bodies at 1 kHz fills the default of 208 KiB in 20 ms.
"""
_GOOD_CLOCKS: Final = ("tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page", "xen")
_DISK_WARN_BYTES: Final = 2 << 30
_DISK_FAIL_BYTES: Final = 100 << 20
_TIME_ERROR: Final = 5
_TIMEX_BYTES: Final = 512


def check_receive_buffer(root: Path = ROOT) -> Finding:
    """Check ``net.core.rmem_max``, which limits the datagrams that wait while the bridge is
    busy.
    """
    name = "socket buffers"
    limit = _number(root / "proc/sys/net/core/rmem_max")
    if limit is None:
        return warn(name, "net.core.rmem_max cannot be read", "is this Linux, with /proc mounted?")
    if limit < RECEIVE_BUFFER_BYTES:
        return warn(
            name,
            f"net.core.rmem_max is {limit} bytes, {RECEIVE_BUFFER_BYTES} are asked for: "
            "bursts of frames will be lost",
            "sudo sysctl -w net.core.rmem_max=4194304 (for good: a line in "
            "/etc/sysctl.d/60-vil-bridge.conf)",
        )
    return ok(name, f"net.core.rmem_max is {limit} bytes")


def udp_errors(root: Path = ROOT) -> dict[str, int]:
    """Return the kernel's UDP counters since boot, empty where they cannot be read."""
    try:
        lines = (root / "proc/net/snmp").read_text().splitlines()
    except OSError:
        return {}
    rows = [line.split()[1:] for line in lines if line.startswith("Udp:")]
    if len(rows) < 2:
        return {}
    return {
        key: int(value)
        for key, value in zip(rows[0], rows[1], strict=False)
        if value.lstrip("-").isdecimal()
    }


def check_udp_errors(before: dict[str, int], after: dict[str, int]) -> Finding:
    """Check for datagrams that the kernel dropped because a socket's buffer was full, between
    two readings.
    """
    name = "UDP drops"
    if not after:
        return warn(
            name, "the kernel's UDP counters cannot be read", "is this Linux, with /proc mounted?"
        )
    now = after.get("RcvbufErrors", 0) - before.get("RcvbufErrors", 0)
    total = after.get("RcvbufErrors", 0)
    if now > 0:
        return fail(
            name,
            f"the kernel dropped {now} datagrams during this check, since a program reads "
            "its socket too slowly",
            "see `socket buffers`; stop what loads this computer; is another bridge running?",
        )
    return ok(name, f"none during this check, {total} since this computer started")


def check_reverse_path(root: Path = ROOT, interface_count: int = 2) -> Finding:
    """Check the reverse path filter.

    A strict one drops multicast from an interface without a route back.
    """
    name = "reverse path filter"
    values = {
        p.parent.name: _number(p)
        for p in sorted((root / "proc/sys/net/ipv4/conf").glob("*/rp_filter"))
    }
    everywhere = values.pop("all", None) or 0
    strict = [
        n for n, v in values.items() if max(v or 0, everywhere) == 1 and n not in ("lo", "default")
    ]
    if strict and interface_count > 1:
        return warn(
            name,
            f"strict on {', '.join(strict)}: multicast from a network without a route is "
            "dropped silently",
            f"sudo sysctl -w net.ipv4.conf.all.rp_filter=2 net.ipv4.conf.{strict[0]}.rp_filter=2",
        )
    return ok(name, "not in the way")


def check_clock_source(root: Path = ROOT) -> Finding:
    """Check the clock source.

    A slow one costs a microsecond or more at each of thousands of stamps a second.
    """
    name = "clock source"
    path = root / "sys/devices/system/clocksource/clocksource0/current_clocksource"
    try:
        source = path.read_text().strip()
    except OSError:
        return warn(name, "it cannot be read", "is this Linux, with /sys mounted?")
    if source in _GOOD_CLOCKS:
        return ok(name, source)
    return warn(
        name,
        f"{source}: slow, the kernel found no usable time-stamp counter",
        "look for `clocksource` in `dmesg`; switch off power saving of the counter in the BIOS",
    )


def check_clock_sync() -> Finding:
    """Check that this computer's wall clock is synchronised.

    Poses use the monotonic clock and do not need it.
    """
    name = "wall clock"
    libc = ctypes.CDLL(None, use_errno=True)
    state = -1
    if hasattr(libc, "adjtimex"):
        state = libc.adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    if state == _TIME_ERROR:
        return warn(
            name,
            "not synchronised (chrony, NTP, PTP): UTC stamps of recordings will be off; "
            "poses are not concerned",
            "sudo apt-get install chrony",
        )
    return ok(name, "synchronised" if state >= 0 else "its synchronisation cannot be read")


def check_ptp(root: Path = ROOT) -> Finding:
    """Report the PTP hardware clocks; nothing needs one."""
    return ok("PTP clocks", ptp_clocks(root))


def check_realtime() -> Finding:
    """Check that the daemon may ask for SCHED_FIFO."""
    name = "realtime scheduling"
    allowed, _ = resource.getrlimit(resource.RLIMIT_RTPRIO)
    if os.geteuid() == 0 or allowed > 0 or allowed == resource.RLIM_INFINITY:
        return ok(name, "allowed")
    return warn(
        name,
        "not allowed: other programs can delay frames by milliseconds",
        "a line `@users - rtprio 30` in /etc/security/limits.d/vil-bridge.conf, then log in again",
    )


def check_disk(folder: Path) -> Finding:
    """Check the space for recordings and logs."""
    name = "disk"
    free = shutil.disk_usage(folder).free
    text = f"{free / (1 << 30):.1f} GiB free in {folder.resolve()}"
    if free < _DISK_FAIL_BYTES:
        return fail(name, text, "make room: logs and recordings cannot be written")
    if free < _DISK_WARN_BYTES:
        return warn(name, text, "make room before recording")
    return ok(name, text)


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
