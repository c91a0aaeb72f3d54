"""Commands and schemas, which every program of ours builds at its start, built once in a process of the tests.

The command line and the HTTP application depend on code alone. Their parts are immutable: Typer's commands, and the
pydantic adapters of FastAPI's fields, of which an application has some 230 with some 60 different ones.
"""

from __future__ import annotations

import functools
from typing import Any, get_args
from unittest import mock

import typer.main
from fastapi._compat import v2
from pydantic import TypeAdapter

from vil_bridge.cli.main import app
from vil_bridge.config.load import load_text
from vil_bridge.daemon import bridge as daemon
from vil_bridge.registry import resolve

__all__ = ["prepare_programs", "share_schemas"]

_EMPTY = 'version: 1\nstream: {bind: "tcp://127.0.0.1:0"}\nhttp: {port: 0}\n'

_adapters: dict[tuple[object, str, str], TypeAdapter[Any]] = {}


def share_schemas() -> None:
    """Let the applications of all bridges in this process share the adapters of their fields."""
    if hasattr(v2, "TypeAdapter"):
        v2.TypeAdapter = _adapter


def _adapter(kind: Any, *, config: Any = None) -> TypeAdapter[Any]:
    """Return the adapter of an annotated type, made at most once."""
    annotation, *metadata = get_args(kind)
    key = annotation, repr(metadata), repr(config)
    if key not in _adapters:
        _adapters[key] = TypeAdapter(kind, config=config)
    return _adapters[key]


def prepare_programs() -> None:
    """Build the command line and an HTTP application for all programs that this process will be."""
    share_schemas()
    typer.main.get_command = functools.cache(typer.main.get_command)
    typer.main.get_command(app)
    with mock.patch.object(daemon, "freeze_heap", return_value=False):  # the settings of the heap would stay
        empty = daemon.Bridge(load_text(_EMPTY, "bridge.yaml", resolve=resolve))
    try:
        empty.build_web()
    finally:
        empty.http.stop()
