"""Configuration keys of sources that connect to one server."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from vil_bridge.config.address import Host
from vil_bridge.config.base import SourceConfigBase


class MocapServerConfig(SourceConfigBase):
    """A motion-capture server that measures, with the subjects that are expected of it."""

    poses_carry_noise: ClassVar[bool] = True

    server: Host = Field(
        default="127.0.0.1",
        min_length=1,
        max_length=253,
        description="Address or name of the server's computer; data of other senders are dropped.",
    )
    subjects: tuple[str, ...] = Field(
        default=(), description="Subjects that must be there; a missing one is logged once."
    )
