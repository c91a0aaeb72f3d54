"""``vil-bridge record``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vil_bridge.cli.connect import TokenFile, Where, reach
from vil_bridge.cli.disk_errors import explained_disk_errors
from vil_bridge.core.text import printable
from vil_bridge.runtime.exit_codes import Exit

if TYPE_CHECKING:
    from vil_bridge.cli.bridge_client import BridgeAddress
    from vil_bridge.web.schemas.recordings import RecordingView

_CHECK_S = 1.0


def record(
    where: Where = "http://127.0.0.1:8080",
    seconds: Annotated[
        float, typer.Option(min=0, help="Length of the recording; 0 = until Ctrl-C.")
    ] = 0.0,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Fetch the recording into this new file; none = leave it with the bridge.",
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(help="Name of the file in the bridge's folder; none = after the time."),
    ] = None,
    token_file: TokenFile = None,
) -> None:
    """Let a running bridge record everything: `vil-bridge record --seconds 60 -o flight.mcap`.

    `vil-bridge run CONFIG --record FILE` records from the start instead.
    """
    import time

    from vil_bridge.web.client.connection import path_of
    from vil_bridge.web.schemas.recordings import RecordingView

    if out is not None and out.exists():
        typer.echo(f"{out} exists: recordings never replace files, choose another name", err=True)
        raise typer.Exit(Exit.CHECK_FAILED)
    if out is not None and not out.absolute().parent.is_dir():
        typer.echo(
            f"{out.parent} is not a folder: create it first, or choose another name", err=True
        )
        raise typer.Exit(Exit.CHECK_FAILED)
    bridge = reach(where, token_file=token_file, role="control")
    path = path_of("recording")
    with bridge.explained():
        state = bridge.put(RecordingView, path, {} if name is None else {"name": name})
        typer.echo(f"recording {state.file}; Ctrl-C ends it")
        end_s = time.monotonic() + seconds if seconds else float("inf")
        try:
            while state.state == "recording" and time.monotonic() < end_s:
                time.sleep(min(_CHECK_S, max(0.0, end_s - time.monotonic())))
                state = bridge.get(RecordingView, path)
        except KeyboardInterrupt:
            pass
        state = bridge.put(RecordingView, path, None, "DELETE")
    _print_result(state)
    if out is not None:
        _fetch(bridge, state.file, out)


def _print_result(state: RecordingView) -> None:
    """Print what was recorded.

    Raises:
        typer.Exit: it failed.
    """
    lost = sum(state.lost.values())
    size = f"{state.messages} messages, {state.bytes / 1e6:.1f} MB in {state.seconds:.1f} s"
    if lost:
        size += f", {lost} lost"
    typer.echo(f"{state.file}: {size}")
    if state.state == "failed":
        typer.echo(printable(f"the recording failed: {state.reason}"), err=True)
        raise typer.Exit(Exit.CHECK_FAILED)


def _fetch(bridge: BridgeAddress, name: str, out: Path) -> None:
    """Copy a recording from the bridge; an incomplete copy is removed.

    Raises:
        typer.Exit: there is no copy; the reason was printed.
    """
    from vil_bridge.web.client.connection import path_of
    from vil_bridge.web.client.errors import RestError

    path = path_of("recordings", name)
    cure = f"the bridge has it: {bridge.url}{path}"
    with explained_disk_errors(out, cure):
        try:
            bridge.save(path, out)
        except RestError as exc:
            typer.echo(f"{out}: {exc}; {cure}", err=True)
            raise typer.Exit(Exit.CHECK_FAILED) from None
    typer.echo(str(out))
