"""Arguments that several verbs share."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["Profile"]

Profile = Annotated[str, typer.Option("--profile", help="Quality: low, medium, high, ultra.")]
