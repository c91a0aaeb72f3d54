"""Configuration of the Vicon sources and of their emulators."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from vil_adapters.sessions.server_config import MocapServerConfig
from vil_bridge.config.address import Ipv4, Ipv4OrAuto, Multicast
from vil_bridge.config.base import Listening, StrictModel


class _ViconBase(MocapServerConfig):
    """Address of the server, and what is requested of it."""

    port: int = Field(default=801, ge=1, le=65535, description="TCP port of the DataStream.")
    segments: bool = Field(
        default=False,
        description="Hand on every segment of a subject with several as a body too, named "
        "subject/segment.",
    )


class ViconConfig(_ViconBase):
    """Receive objects and persons over Vicon's DataStream."""

    type: Literal["vicon"] = "vicon"
    interface: Ipv4OrAuto = Field(
        default="auto",
        description="Local IPv4 address to connect from; auto = the one that routes to the server.",
    )
    mode: Literal["push", "pull", "prefetch"] = Field(
        default="push",
        description="push = the server sends every frame (lowest latency); pull = one frame per "
        "request, a round "
        "trip late; prefetch = the next frame is asked for as soon as one came.",
    )
    lightweight: bool = Field(
        default=False,
        description="Ask for small 32-bit segments (for slow networks); a server without them is "
        "asked for full ones.",
    )
    markers: Literal["none", "labeled", "all"] = Field(
        default="none",
        description="Single markers: those of subjects, or these and the unlabeled ones.",
    )
    multicast_group: Literal[""] | Multicast = Field(
        default="",
        description="Receive frames by multicast on this group instead; empty = over TCP.",
    )
    multicast_port: int = Field(
        default=44801, ge=1, le=65535, description="UDP port of the multicast group."
    )


class ViconNativeConfig(_ViconBase):
    """Receive through a vendor's library in a process of its own, where one is installed."""

    type: Literal["vicon-native"] = "vicon-native"
    library: Literal["auto", "vicon_dssdk", "pyvicon_datastream"] = Field(
        default="auto",
        description="Python module to use; auto = vicon_dssdk, else pyvicon_datastream.",
    )


class TrackerUdpConfig(MocapServerConfig):
    """Listen to Tracker's UDP object stream: rigid objects only, no time stamps."""

    type: Literal["tracker-udp"] = "tracker-udp"
    listens: ClassVar[tuple[Listening, ...]] = (Listening("port", "udp"),)
    poses_carry_noise: ClassVar[bool] = False

    port: int = Field(default=51001, ge=1, le=65535, description="UDP port set in Tracker.")
    rate_hz: float | None = Field(
        default=None,
        gt=0.0,
        le=10_000.0,
        description="Frame rate of the system, which the stream does not contain: gives capture "
        "times by frame number; "
        "none = the arrival is used.",
    )


class TrackerEmulatorConfig(StrictModel):
    """A stand-in for Tracker's DataStream server."""

    bind: Ipv4 = Field(default="127.0.0.1", description="Local IPv4 address.")
    port: int = Field(default=801, ge=0, le=65535, description="TCP port; 0 = any free one.")
    rate_hz: float = Field(default=100.0, gt=0.0, le=2000.0, description="Frames per second.")
    up_axis: Literal["y", "z"] = Field(default="z", description="Up axis of what is streamed.")
    latency_ms: float = Field(
        default=4.5, ge=0.0, le=1000.0, description="From capture to transmission."
    )
    latency_jitter_ms: float = Field(
        default=0.2,
        ge=0.0,
        le=1000.0,
        description="Standard deviation of the delay added to the latency.",
    )
    clock_drift_ppm: float = Field(
        default=20.0,
        ge=-1000.0,
        le=1000.0,
        description="Frames come faster than their stated period by this.",
    )
    lightweight: bool = Field(
        default=True, description="Whether the server knows lightweight segments."
    )
    unknown_blocks: bool = Field(default=False, description="Send blocks of unknown types.")
    split_bytes: int = Field(
        default=0, ge=0, description="Write packets in parts of so many bytes; 0 = as a whole."
    )
    seed: int = Field(default=0, description="Seed of the jitter.")


class TrackerUdpEmulatorConfig(StrictModel):
    """A stand-in for Tracker's UDP object stream."""

    bind: Ipv4 = Field(default="127.0.0.1", description="Local IPv4 address to send from.")
    target: Ipv4 = Field(default="127.0.0.1", description="IPv4 address that the datagrams go to.")
    port: int = Field(
        default=51001, ge=0, le=65535, description="UDP port they go to; 0 = one that is free now."
    )
    rate_hz: float = Field(default=100.0, gt=0.0, le=2000.0, description="Frames per second.")
    block_bytes: Literal[256, 512, 1024] = Field(
        default=1024, description="Size that datagrams are padded to."
    )
    lost: Literal["repeat", "omit"] = Field(
        default="repeat",
        description="What becomes of a lost object: its last pose is repeated, or it is left out.",
    )
    latency_ms: float = Field(
        default=4.5, ge=0.0, le=1000.0, description="From capture to transmission."
    )
