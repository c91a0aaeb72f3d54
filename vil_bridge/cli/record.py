"""``vil-bridge record``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vil_bridge.cli.connect import BridgeAddress, ConnectionRejected, TokenFile, Where, reach
from vil_bridge.cli.exit_codes import Exit, disk_trouble_told
from vil_bridge.core.text import printable

if TYPE_CHECKING:
    from http.client import HTTPResponse

__all__ = ["record"]

_TIMEOUT_S = 10.0
_LOOK_S = 1.0


def record(
    where: Where = "http://127.0.0.1:8080",
    seconds: Annotated[float, typer.Option(min=0, help="How long; 0 = until Ctrl-C.")] = 0.0,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Fetch the recording into this new file; none = it stays with the bridge."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the file in the bridge's folder; none = after the time.")
    ] = None,
    token_file: TokenFile = None,
) -> None:
    """Let a running bridge record everything: `vil-bridge record --seconds 60 -o flight.mcap`.

    `vil-bridge run CONFIG --record FILE` records from the start instead.
    """
    import json
    import time

    if out is not None and out.exists():
        typer.echo(f"{out} exists: recordings never replace files, choose another name", err=True)
        raise typer.Exit(Exit.CHECK_FAILED)
    if out is not None and not out.absolute().parent.is_dir():
        typer.echo(f"{out.parent} is no folder: make it first, or choose another name", err=True)
        raise typer.Exit(Exit.CHECK_FAILED)
    bridge = reach(where, token_file=token_file, role="control")
    told = _asked(bridge, "PUT", json.dumps({} if name is None else {"name": name}).encode())
    typer.echo(f"recording {told['file']}; Ctrl-C ends it")
    ends_s = time.monotonic() + seconds if seconds else float("inf")
    try:
        while told["state"] == "recording" and time.monotonic() < ends_s:
            time.sleep(min(_LOOK_S, max(0.0, ends_s - time.monotonic())))
            told = _asked(bridge, "GET")
    except KeyboardInterrupt:
        pass
    told = _asked(bridge, "DELETE")
    _conclude(told)
    if out is not None:
        _fetch(bridge, told["file"], out)


def _conclude(told: dict[str, Any]) -> None:
    """Say what was recorded.

    Raises:
        typer.Exit: it failed.
    """
    lost = sum(told["lost"].values())
    size = f"{told['messages']} messages, {told['bytes'] / 1e6:.1f} MB in {told['seconds']:.1f} s"
    typer.echo(f"{told['file']}: {size}" + (f", {lost} lost" if lost else ""))
    if told["state"] == "failed":
        typer.echo(printable(f"the recording failed: {told['reason']}"), err=True)
        raise typer.Exit(Exit.CHECK_FAILED)


def _fetch(bridge: BridgeAddress, name: str, out: Path) -> None:
    """Copy it from the bridge; nothing is left of what does not come whole.

    Raises:
        typer.Exit: it did not, and the reason was told.
    """
    import shutil

    place = f"api/v1/recordings/{name}"
    with (
        disk_trouble_told(out, f"the bridge has it: {bridge.url}/{place}"),
        _opened(bridge, place, "GET") as answer,
        out.open("xb") as file,
    ):
        try:
            shutil.copyfileobj(answer, file, 1 << 20)
            if answer.length:
                raise OSError(f"the bridge ended with {answer.length} bytes still to come")
        except BaseException:
            out.unlink()
            raise
    typer.echo(str(out))


def _asked(bridge: BridgeAddress, method: str, body: bytes | None = None) -> dict[str, Any]:
    import json

    with _opened(bridge, "api/v1/recording", method, body) as answer:
        try:
            told: dict[str, Any] = json.load(answer)
        except (OSError, ValueError) as exc:
            typer.echo(f"what answers at {bridge.url} is no bridge, or broke off ({exc})", err=True)
            raise typer.Exit(Exit.CHECK_FAILED) from None
        return told


def _opened(bridge: BridgeAddress, path: str, method: str, body: bytes | None = None) -> HTTPResponse:
    """Ask the bridge.

    Raises:
        typer.Exit: it refuses, or nobody answers.
    """
    import http.client

    try:
        return bridge.open(path, _TIMEOUT_S, body, method)
    except ConnectionRejected as exc:
        typer.echo(f"the bridge at {bridge.url} refuses: {exc.reason}", err=True)
    except (OSError, ValueError, http.client.HTTPException) as exc:
        typer.echo(f"no bridge answers at {bridge.url} ({exc}): is `vil-bridge run` up?", err=True)
    raise typer.Exit(Exit.CHECK_FAILED)
