"""Configuration of the OptiTrack source and of the Motive emulator."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from vil_adapters.sessions.server_config import MocapServerConfig
from vil_bridge.config.address import Host, Ipv4, Ipv4OrAuto, Multicast
from vil_bridge.config.base import SourceConfigBase, StrictModel


class OptitrackConfig(MocapServerConfig):
    """Receive rigid bodies and skeletons from OptiTrack Motive over NatNet."""

    type: Literal["optitrack"] = "optitrack"
    command_port: int = Field(
        default=1510, ge=1, le=65535, description="UDP command port set in Motive."
    )
    interface: Ipv4OrAuto = Field(
        default="auto",
        description="Local IPv4 address to receive on; auto = the one that routes to the server.",
    )
    up_axis: Literal["y", "z"] = Field(
        default="y",
        description="'Up Axis' of Motive's streaming pane; the stream does not contain it.",
    )
    skeleton_coordinates: Literal["auto", "global", "local"] = Field(
        default="auto",
        description="'Skeleton Coordinates' of Motive's streaming pane; auto = found from the "
        "data.",
    )
    subscribe: bool = Field(
        default=False,
        description="Have only `subjects` sent, to save bandwidth (NatNet 4.0 and newer, unicast).",
    )
    markers: Literal["none", "labeled", "all"] = Field(
        default="none", description="Single markers to take over; all = those without a label too."
    )
    max_age_ms: float = Field(
        default=500.0,
        gt=0.0,
        description="Frames captured longer ago are dropped and counted as stale, milliseconds.",
    )
    transport: Literal["auto", "unicast", "multicast"] = Field(
        default="auto",
        description="auto = as the server announces; servers before NatNet 3.0 announce nothing: "
        "multicast then.",
    )
    data_port: int = Field(
        default=1511,
        ge=1,
        le=65535,
        description="UDP data port of servers that announce none (before NatNet 3.0).",
    )
    multicast_group: Multicast = Field(
        default="239.255.42.99",
        description="Group of servers that announce none (before NatNet 3.0).",
    )


class LegacyOptitrackConfig(SourceConfigBase):
    """Rigid bodies of an old NatNet server (2.6 to 2.10, unicast) through PyPI natnetclient."""

    poses_carry_noise: ClassVar[bool] = True

    type: Literal["optitrack-legacy"] = "optitrack-legacy"
    server: Host = Field(
        default="127.0.0.1",
        min_length=1,
        max_length=253,
        description="Address or name of the server's computer.",
    )
    command_port: int = Field(
        default=1510, ge=1, le=65535, description="UDP command port of the server."
    )
    data_port: int = Field(
        default=1511, ge=1, le=65535, description="UDP port here that the server sends frames to."
    )
    interface: Ipv4OrAuto = Field(
        default="auto",
        description="Local IPv4 address to receive on; auto = the one that routes to the server.",
    )
    up_axis: Literal["y", "z"] = Field(default="y", description="Up axis of what is streamed.")
    units_to_millimeters: float = Field(
        default=1000.0,
        gt=0.0,
        description="Millimetres per streamed unit of length; this client cannot ask.",
    )


class MotiveEmulatorConfig(StrictModel):
    """A stand-in for Motive: what it announces, how fast it films, how well its network behaves."""

    bind: Ipv4 = Field(default="127.0.0.1", description="Local IPv4 address.")
    command_port: int = Field(
        default=1510, ge=0, le=65535, description="UDP command port; 0 = any free one."
    )
    data_port: int = Field(
        default=1511, ge=0, le=65535, description="UDP data port; 0 = any free one."
    )
    transport: Literal["unicast", "multicast"] = Field(
        default="unicast", description="How frames are sent."
    )
    multicast_group: Multicast = Field(
        default="239.255.42.99", description="Group that frames go to in multicast."
    )
    version: str = Field(
        default="4.1",
        pattern=r"^(2\.([5-9]|10)|3\.[01]|4\.[0-2])$",
        description="NatNet version that the server speaks.",
    )
    rate_hz: float = Field(default=240.0, gt=0.0, le=2000.0, description="Frames per second.")
    up_axis: Literal["y", "z"] = Field(default="y", description="Up axis of what is streamed.")
    skeleton_coordinates: Literal["global", "local"] = Field(
        default="global",
        description="Whether bones are streamed in the room or relative to their parents.",
    )
    units_to_millimeters: float = Field(
        default=1000.0,
        gt=0.0,
        description="Millimetres per streamed unit of length: 1000 = metres.",
    )
    latency_ms: float = Field(
        default=4.5, ge=0.0, le=1000.0, description="From mid-exposure to transmission."
    )
    latency_jitter_ms: float = Field(
        default=0.2,
        ge=0.0,
        le=1000.0,
        description="Standard deviation of the delay added to the latency.",
    )
    clock_offset_s: float = Field(
        default=1000.0, ge=0.0, description="Server clock minus bridge clock at the start."
    )
    clock_drift_ppm: float = Field(
        default=20.0, ge=-1000.0, le=1000.0, description="Server clock runs fast by this."
    )
    registration_timeout_s: float = Field(
        default=10.0,
        gt=0.0,
        description="A unicast client that stays silent for longer is forgotten.",
    )
    client_port: int = Field(
        default=0,
        ge=0,
        le=65535,
        description="Unicast frames go to this port of each client; 0 = the port that it "
        "registered from.",
    )
    assets: tuple[str, ...] = Field(
        default=(),
        description="Subjects sent as trained marker sets, not as rigid bodies (NatNet 4.1 and "
        "newer).",
    )
    force_plates: int = Field(
        default=0, ge=0, le=16, description="Force plates in the room (NatNet 2.9 and newer)."
    )
    devices: int = Field(
        default=0, ge=0, le=16, description="Other analog devices (NatNet 3.0 and newer)."
    )
