"""Section ``airsim`` of the configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field, StringConstraints, ValidationInfo, field_validator

from vil_bridge.config.base import Listening, NameOrFile, StrictModel
from vil_bridge.config.bind_address import require_guard
from vil_bridge.config.references import ReferenceProblem
from vil_bridge.config.sections import Section

__all__ = ["SECTION", "AirsimConfig"]

_VehicleName = Annotated[str, StringConstraints(min_length=1, max_length=255)]


class AirsimConfig(StrictModel):
    """Server of AirSim's RPC.

    Programs written for AirSim read the vehicles and fly the simulated ones.
    """

    listens: ClassVar[tuple[Listening, ...]] = (Listening("port", "tcp"),)

    insecure: bool = Field(
        default=False,
        description="Allow an address that the network can reach: the protocol knows no keys.",
    )
    role: Literal["view", "control"] | None = Field(
        default=None,
        description="What every program may do: view = read, control = change everything; none = "
        "control, and required"
        " where http.token_file is set.",
    )
    folder: Path | None = Field(
        default=None,
        description="Folder of the files that programs make; none = Recording.Folder of the "
        "settings, or"
        " ~/Documents/AirSim.",
    )
    bind: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on.")
    port: int = Field(default=41451, ge=0, le=65535, description="TCP port; 0 = any free one.")
    scene: NameOrFile = Field(
        default="blocks",
        min_length=1,
        max_length=4096,
        description="What cameras and rays see: a scene's name or file.",
    )
    profile: str = Field(
        default="low", min_length=1, max_length=32, description="Quality of the pictures."
    )
    settings: str = Field(
        default="{}",
        max_length=1 << 20,
        description="Text of AirSim's settings.json: cameras, sensors, origin.",
    )
    positions: Literal["start", "world"] = Field(
        default="start",
        description="Where positions of vehicles are zero: start = each one's own, as AirSim's; "
        "world = the world's "
        "origin, as those of objects, which programs of the drone racing lab expect.",
    )
    compat: bool = Field(
        default=False,
        description="Multirotors that a program adds (simAddVehicle) fly as AirSim's own code "
        "does, its slips "
        "included; the others say so by `compat` of their own.",
    )
    vehicles: dict[_VehicleName, str] = Field(
        default={},
        max_length=1000,
        description="Actors by the names that programs use; vehicles that are not named here have "
        "their own.",
    )

    @field_validator("bind")
    @classmethod
    def _reachable(cls, bind: str, info: ValidationInfo) -> str:
        require_guard(bind, guarded=bool(info.data.get("insecure")))
        return bind


def _role_of_programs(config: Mapping[str, Any]) -> Iterator[ReferenceProblem]:
    """Yield the missing role of programs of a bridge that asks people for tokens."""
    airsim = config.get("airsim")
    http = config.get("http")
    if not isinstance(airsim, Mapping) or not isinstance(http, Mapping):
        return
    if airsim.get("role") is None and http.get("token_file") is not None:
        reason = (
            "http.token_file asks for tokens, and AirSim's protocol knows none: say what every "
            "program that reaches its port may do: `role: view` (read) or `role: control` (change "
            "everything)"
        )
        yield ReferenceProblem(("airsim", "role"), reason)


SECTION: Final = Section(
    AirsimConfig | None,
    Field(default=None, description="The server for AirSim's programs; none = no server."),
    _role_of_programs,
)
