"""Bodies of the status routes."""

from __future__ import annotations

from pydantic import BaseModel, Field


class HealthOut(BaseModel):
    """Answer of a live process."""

    status: str = Field(
        default="ok", description="Always ok: a process that hangs does not answer."
    )


class ReadyOut(BaseModel):
    """Readiness of the pipeline."""

    ready: bool = Field(description="True while every camera delivers, and what they need works.")
    not_ready_because: tuple[str, ...] = Field(
        description="Reasons, as sentences; empty when ready."
    )
    degraded_because: tuple[str, ...] = Field(
        description="What is worse than asked although vehicles can fly on it, as sentences; empty "
        "when nothing is."
    )


class ErrorOut(BaseModel):
    """Reason of a refusal or failure."""

    detail: str = Field(
        description="The reason; for an unknown name, which exist or where they are listed."
    )
