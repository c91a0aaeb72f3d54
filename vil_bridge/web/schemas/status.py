"""Bodies of the status routes."""

from __future__ import annotations

from dataclasses import field, make_dataclass
from typing import TYPE_CHECKING, Any, get_origin

from pydantic import BaseModel, Field

from vil_bridge.interfaces.services import service_views
from vil_bridge.monitoring.snapshot import BridgeSnapshot


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


def _absent(view: Any) -> Any:
    """Return the default of a service that the configuration does not ask for."""
    kind = get_origin(view)
    if kind is dict:
        return field(default_factory=dict)
    if kind is tuple:
        return field(default=())
    return field(default=None)


def _with_services() -> type[BridgeSnapshot]:
    """Return the type of the whole status: the bridge, and a field for each service with a view."""
    fields = [(name, v.View, _absent(v.View)) for name, v in service_views().items()]
    return make_dataclass(
        BridgeSnapshot.__name__,
        fields,
        bases=(BridgeSnapshot,),
        namespace={"__doc__": BridgeSnapshot.__doc__},
        frozen=True,
        slots=True,
    )


if TYPE_CHECKING:

    class BridgeStatus(BridgeSnapshot):
        """The whole bridge with its services, as ``/api/v1/status`` sends it."""

        def __init__(self, *args: Any, **fields: Any) -> None: ...

        def __getattr__(self, service: str) -> Any: ...
else:
    BridgeStatus = _with_services()
