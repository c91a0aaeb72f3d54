"""Bodies of requests, read within limits of length and time, and the refusals that routes share."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from fastapi import HTTPException, Request
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect

from vil_bridge.core.errors import ConfigError, ValueRefused
from vil_bridge.web.schemas.body import problems_of
from vil_bridge.web.schemas.status import ErrorOut

NOT_NOW: Final[dict[int | str, dict[str, Any]]] = {
    409: {"model": ErrorOut, "description": "Not now; the answer says why."}
}
"""Part of the OpenAPI document of an operation that may be refused."""

_MAX_BODY_BYTES: Final = 64 * 1024
_TIMEOUT_S: Final = 5.0
_T = TypeVar("_T", bound=BaseModel)


def takes(model: type[BaseModel], example: Any = None) -> dict[str, Any]:
    """Return the body's part of the OpenAPI document, with the errors that it may cause.

    Args:
        model: of the body.
        example: of it as JSON; None = :mod:`vil_bridge.web.openapi` has one.
    """
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    schema.pop("$defs", None)  # the answers put them among the components
    body = {"schema": schema}
    if example is not None:
        body["example"] = example
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorOut"}}}
    return {
        "requestBody": {"required": True, "content": {"application/json": body}},
        "responses": {
            "408": {"description": "The body came too slowly.", "content": error},
            "413": {"description": "The body is too long.", "content": error},
        },
    }


async def read_body(request: Request, model: type[_T]) -> _T:
    """Return the body as a value.

    Raises:
        HTTPException: it is too long (413), too slow (408), incomplete (400) or wrong (422, with
            the place).
    """
    body = bytearray()
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            async for chunk in request.stream():
                body += chunk
                if len(body) > _MAX_BODY_BYTES:
                    raise HTTPException(413, f"the body is longer than {_MAX_BODY_BYTES} bytes")
    except TimeoutError:
        raise HTTPException(408, f"the body did not come within {_TIMEOUT_S:.0f} s") from None
    except ClientDisconnect:  # no client is left to read the answer
        raise HTTPException(400, "the body ended before it was whole") from None
    try:
        return model.model_validate_json(bytes(body))
    except ValidationError as exc:
        raise HTTPException(422, problems_of(exc, "body")) from None


@contextmanager
def explained_refusals() -> Iterator[None]:
    """Answer 422 to a wrong value, and 409 to a change that is refused now, with the reason."""
    try:
        yield
    except (ConfigError, ValueRefused) as exc:
        raise HTTPException(422, str(exc)) from None
    except ValueError as exc:
        raise HTTPException(409, str(exc)) from None
