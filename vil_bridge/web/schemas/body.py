"""Base of the JSON bodies."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, ValidationError


class Body(BaseModel):
    """Body as JSON: no unknown keys, no conversions, no numbers that are not finite."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)


def problems_of(exc: ValidationError, whole: str) -> str:
    """Return the first few problems, each with its place.

    ``whole`` = the place of the whole body.
    """
    problems = [
        f"{'.'.join(map(str, e['loc'])) or whole}: {e['msg']}"
        for e in exc.errors(include_url=False)
    ]
    return "; ".join(problems[:8])
