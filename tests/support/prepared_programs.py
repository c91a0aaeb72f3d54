"""Commands and schemas, which every program of ours builds at its start, built once for all that
are forked.
"""

from __future__ import annotations

import functools
from typing import Final
from unittest import mock

import typer.main

from tests.support.shared_schemas import share_schemas
from vil_bridge.cli.main import app
from vil_bridge.config.load import load_text
from vil_bridge.daemon import bridge as daemon
from vil_bridge.registry import resolve

__all__ = ["prepare_programs"]

_EMPTY: Final = 'version: 1\nstream: {bind: "tcp://127.0.0.1:0"}\nhttp: {port: 0}\n'


def prepare_programs() -> None:
    """Build the command line and an HTTP application for all programs that this process will be."""
    share_schemas()
    typer.main.get_command = functools.cache(typer.main.get_command)
    typer.main.get_command(app)
    # The settings of the heap would stay.
    with mock.patch.object(daemon, "freeze_heap", return_value=False):
        empty = daemon.Bridge(load_text(_EMPTY, "bridge.yaml", resolve=resolve))
    try:
        empty.build_web()
    finally:
        empty.http.stop()
