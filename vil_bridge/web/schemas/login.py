"""Bodies of the login routes."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from vil_bridge.runtime.access_tokens import Role
from vil_bridge.web.schemas.body import Body

__all__ = []


class WhoOut(BaseModel):
    """Role of the caller."""

    role: Role = Field(description="Role of the caller.")
    token_required: bool = Field(description="False = every caller may do everything.")
    insecure: bool = Field(
        description="True = others can reach this address without any authentication."
    )


class LinkBody(Body):
    """Role of a new link."""

    role: Literal["view", "control"] = Field(default="view", description="Role of its user.")


class LinkOut(BaseModel):
    """Link that logs one browser in."""

    path: str = Field(description="Relative to the status page's address; works once.")
    expires_s: float = Field(description="For how long, seconds.")
