"""Configuration of the VRPN source and of the emulated VRPN server."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from vil_adapters.emulation.emulator import REAL_LATENCY_MS
from vil_adapters.sessions.server_config import MocapServerConfig
from vil_bridge.config.address import Ipv4
from vil_bridge.config.base import StrictModel

_Unit = Literal["m", "mm"]
_UpAxis = Literal["y", "z"]


class VrpnConfig(MocapServerConfig):
    """Receive trackers from a VRPN server (Motive, Vicon Tracker and many others)."""

    type: Literal["vrpn"] = "vrpn"
    port: int = Field(default=3883, ge=1, le=65535, description="TCP and UDP port of the server.")
    connect_back: bool = Field(
        default=False,
        description="Ask by UDP to be connected to, as servers older than VRPN 7 want it; not "
        "through NAT.",
    )
    units: _Unit = Field(
        default="m", description="Unit of the streamed positions; the stream does not contain it."
    )
    up_axis: _UpAxis = Field(
        default="z", description="Up axis of the server; the stream does not contain it."
    )
    repeats_mean_lost: bool = Field(
        default=True,
        description="A body that repeats its pose to the bit more than five times is lost; false = "
        "it rests, for a "
        "simulator without noise: then `tracking.frozen_after_ms` judges.",
    )
    subjects: tuple[str, ...] = Field(
        default=(),
        description="Trackers to take, `name` or `name/sensor`; none = all. A missing one is "
        "warned of.",
    )


class VrpnEmulatorConfig(StrictModel):
    """A stand-in for a VRPN server."""

    bind: Ipv4 = Field(default="127.0.0.1", description="Local IPv4 address.")
    port: int = Field(
        default=3883, ge=0, le=65535, description="TCP and UDP port; 0 = any free one."
    )
    rate_hz: float = Field(default=100.0, gt=0.0, le=2000.0, description="Frames per second.")
    units: _Unit = Field(default="m", description="Unit of what is streamed.")
    up_axis: _UpAxis = Field(default="z", description="Up axis of what is streamed.")
    untracked: Literal["omit", "repeat", "zero"] = Field(
        default="omit",
        description="What is sent of a body that is not tracked: nothing, its last pose, or zeros.",
    )
    latency_ms: float = Field(
        default=REAL_LATENCY_MS, ge=0.0, le=1000.0, description="From mid-exposure to transmission."
    )
    clock_offset_s: float = Field(
        default=1_700_000_000.0,
        ge=0.0,
        le=4e9,
        description="Server clock minus bridge clock at the start.",
    )
    clock_drift_ppm: float = Field(
        default=20.0, ge=-1000.0, le=1000.0, description="Server clock runs fast by this."
    )
