"""Bodies of the login routes."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from vil_bridge.core.access_tokens import Role
from vil_bridge.web.schemas.body import Body

__all__ = []


class WhoOut(BaseModel):
    """Who asks."""

    role: Role = Field(description="What the caller may do.")
    token_required: bool = Field(description="False = whoever reaches this address may do everything.")
    insecure: bool = Field(description="True = others can reach this address, and nothing asks them who they are.")


class LinkBody(Body):
    """Whom a link is for."""

    role: Literal["view", "control"] = Field(default="view", description="What its user may do.")


class LinkOut(BaseModel):
    """A link that logs one browser in."""

    path: str = Field(description="Relative to the status page's address; works once.")
    expires_s: float = Field(description="For how long, seconds.")
