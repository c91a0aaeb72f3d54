"""Configuration of the ROS 2 node and of bags."""

from __future__ import annotations

import re
from pathlib import Path
from typing import ClassVar, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from vil_bridge.config.address import check_port
from vil_bridge.config.base import Listening, custom
from vil_bridge.config.bind_address import refuse_unguarded, require_guard
from vil_bridge.outputs.base import RobotSenderConfig
from vil_bridge.protocols.ros_names import ros_name

_NAMESPACE: Final = r"^([a-z][a-z0-9_]*(/[a-z][a-z0-9_]*)*)?$"
_FRAME: Final = r"^[A-Za-z0-9_/]*$"
_ENDPOINT: Final = re.compile(r"tcp/([^\s/]+):\d{1,5}")


class RosConfigBase(RobotSenderConfig):
    """Common keys of the node and the bags."""

    images: tuple[Literal["compressed", "raw"], ...] = Field(
        default=("compressed",),
        min_length=1,
        description="Forms of each picture: compressed (JPEG, CompressedImage), raw (Image).",
    )
    namespace: str = Field(
        default="vil", pattern=_NAMESPACE, max_length=128, description="First part of topic names."
    )
    world_frame: str = Field(
        default="world",
        pattern=r"^[A-Za-z][A-Za-z0-9_/]*$",
        description="Name of the world's frame (ENU, z up).",
    )
    frame_prefix: str = Field(
        default="",
        pattern=_FRAME,
        max_length=64,
        description="Put before the names of all other frames.",
    )
    clock: bool = Field(
        default=False,
        description="Publish bridge time on /clock, for nodes with use_sim_time; at rate_hz at "
        "most.",
    )

    @model_validator(mode="after")
    def _distinct_in_ros(self) -> Self:
        for names in (self.cameras, self.actors):
            if len({ros_name(name) for name in names}) != len(names):
                raise custom("each name once; ROS writes - as _, and two names must not become one")
        return self


class Ros2Config(RosConfigBase):
    """A ROS 2 node for those who run rmw_zenoh."""

    listens: ClassVar[tuple[Listening, ...]] = (Listening("listen", "tcp"),)

    type: Literal["ros2"] = "ros2"
    distro: Literal["humble", "jazzy", "kilted", "lyrical"] = Field(
        default="jazzy",
        description="ROS 2 distribution of the readers; only humble's wire differs.",
    )
    domain: int = Field(default=0, ge=0, le=232, description="ROS_DOMAIN_ID of the readers.")
    node: str = Field(
        default="vil_bridge",
        pattern=r"^[a-z][a-z0-9_]*$",
        max_length=64,
        description="Node's name.",
    )
    connect: tuple[str, ...] = Field(
        default=("tcp/localhost:7447",),
        description="Zenoh routers and peers to connect to, tcp/HOST:PORT.",
    )
    listen: tuple[str, ...] = Field(
        default=("tcp/127.0.0.1:0",),
        description="Where peers that a router informs of this node may connect; port 0 = any "
        "free one.",
    )
    multicast: bool = Field(
        default=False, description="Search for peers without a router, by multicast."
    )
    maps: tuple[str, ...] = Field(
        default=(),
        max_length=8,
        description="Occupancy maps to send whole, once a second at most, when they changed.",
    )
    commands: bool = Field(
        default=False,
        description="Take commands of other nodes to the actors that are simulated vehicles. ROS "
        "knows no keys.",
    )
    insecure: bool = Field(
        default=False,
        description="Allow routers, peers and listening beyond this machine: nothing is encrypted.",
    )

    @model_validator(mode="after")
    def _private(self) -> Self:
        for endpoint in (*self.connect, *self.listen):
            found = _ENDPOINT.fullmatch(endpoint)
            if found is None:
                raise custom(f"write tcp/HOST:PORT, got {endpoint[:80]!r}")
            check_port(endpoint)
            require_guard(found[1].strip("[]"), guarded=self.insecure)
        if self.multicast:
            refuse_unguarded(
                "a multicast group", guarded=self.insecure, cure="write `multicast: false`"
            )
        return self


class RosBagConfig(RosConfigBase):
    """Record a bag of ROS 1 or ROS 2."""

    type: Literal["ros-bag"] = "ros-bag"
    path: Path = Field(
        description="NAME.bag = a ROS 1 bag; a name without a suffix = a folder with a ROS 2 bag "
        "in MCAP. Never "
        "overwritten: what exists gets a sibling with a number."
    )

    @field_validator("path")
    @classmethod
    def _kind(cls, path: Path) -> Path:
        if path.suffix not in ("", ".bag") or not path.name:
            raise custom(
                "name a file NAME.bag (ROS 1) or a folder without a suffix (ROS 2), got "
                f"{str(path)[:80]!r}"
            )
        return path
