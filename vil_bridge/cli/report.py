"""``vil-bridge report``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vil_bridge.cli.connect import TokenFile, reach
from vil_bridge.cli.disk_errors import explained_disk_errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vil_bridge.cli.bridge_client import BridgeAddress


def report(
    file: Annotated[
        Path | None,
        typer.Argument(
            exists=True, dir_okay=False, help="Recording or saved ledger; none = a running bridge."
        ),
    ] = None,
    url: Annotated[
        str, typer.Option(help="Address of the running bridge's status page.")
    ] = "http://127.0.0.1:8080",
    token_file: TokenFile = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Page to write.")] = Path("report.html"),
    save: Annotated[
        Path | None, typer.Option(help="Save the frames too, as lines of JSON, for a later report.")
    ] = None,
) -> None:
    """Write a report of where the time of every frame went, as one page of HTML.

    It shows the latency of each stage, glass to glass of every frame, gaps, drops by reason, the
    warp, and for a recording the errors of the predicted poses: `vil-bridge report flight.mcap -o
    flight.html`, `vil-bridge report`, `vil-bridge report --save flight.jsonl`.
    """
    from vil_bridge.core.errors import ConfigError
    from vil_bridge.monitoring.frame_records import ledger_lines, read_ledger
    from vil_bridge.monitoring.report.page import report_page
    from vil_bridge.offline.report_input import is_recording, recorded_report

    for made in filter(None, (out, save)):
        if file is not None and made.exists() and made.samefile(file):
            raise ConfigError(f"{made} is the input of the report: choose another name")
    if file is not None and is_recording(file):
        ledgers, errors = recorded_report(file)
    else:
        lines: Iterable[bytes]
        if file is not None:
            lines = file.read_bytes().splitlines()
        else:
            lines = _ledger_lines(reach(url, token_file=token_file))
        ledgers = read_ledger(lines)
        errors = {}
    page = report_page(ledgers, errors)
    with explained_disk_errors(out, "give it room, or another name"):
        if save is not None:
            save.write_bytes(b"".join(map(ledger_lines, ledgers)))
        out.write_text(page, encoding="utf-8")
    frames = ", ".join(f"{ledger.head.camera} {len(ledger.rows)}" for ledger in ledgers) or "none"
    typer.echo(f"{out}: frames of {frames}")


def _ledger_lines(bridge: BridgeAddress) -> Iterator[bytes]:
    """Yield the lines of all cameras' ledgers.

    Raises:
        typer.Exit: the bridge does not answer, or refuses.
    """
    from vil_bridge.web.client.connection import path_of

    with bridge.explained():
        for camera in bridge.get(dict[str, Any], path_of("cameras")):
            yield from bridge.ask("GET", path_of("ledger", camera)).splitlines()
