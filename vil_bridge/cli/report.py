"""``vil-bridge report``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vil_bridge.cli.connect import BridgeAddress, ConnectionRejected, TokenFile, reach
from vil_bridge.cli.exit_codes import Exit, disk_trouble_told

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["report"]

_TIMEOUT_S = 10.0


def report(
    file: Annotated[
        Path | None,
        typer.Argument(exists=True, dir_okay=False, help="Recording, or saved ledger; none = a running bridge."),
    ] = None,
    url: Annotated[str, typer.Option(help="Address of the running bridge's status page.")] = "http://127.0.0.1:8080",
    token_file: TokenFile = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The page to write.")] = Path("report.html"),
    save: Annotated[
        Path | None, typer.Option(help="Keep the frames too, as lines of JSON, to report of them later.")
    ] = None,
) -> None:
    """Draw where the time of every frame went, as one page of HTML.

    Latency of each stage, glass to glass of every frame, gaps, drops by reason, what the warp did, and of a recording
    how wrong the predicted poses were: `vil-bridge report flight.mcap -o flight.html`, `vil-bridge report`,
    `vil-bridge report --save flight.jsonl`.
    """
    from vil_bridge.core.errors import ConfigError
    from vil_bridge.monitoring.frame_records import ledger_lines, read_ledger
    from vil_bridge.monitoring.report.page import report_page
    from vil_bridge.tools.report_input import is_recording, recorded_report

    for made in filter(None, (out, save)):
        if file is not None and made.exists() and made.samefile(file):
            raise ConfigError(f"{made} is what the report is made of: choose another name")
    if file is not None and is_recording(file):
        ledgers, errors = recorded_report(file)
    else:
        lines = file.read_bytes().splitlines() if file is not None else _asked(reach(url, token_file=token_file))
        ledgers, errors = read_ledger(lines), {}
    page = report_page(ledgers, errors)
    with disk_trouble_told(out, "give it room, or another name"):
        if save is not None:
            save.write_bytes(b"".join(map(ledger_lines, ledgers)))
        out.write_text(page, encoding="utf-8")
    frames = ", ".join(f"{ledger.head.camera} {len(ledger.rows)}" for ledger in ledgers) or "none"
    typer.echo(f"{out}: frames of {frames}")


def _asked(bridge: BridgeAddress) -> Iterator[bytes]:
    """Lines of all cameras' ledgers.

    Raises:
        typer.Exit: no bridge answers.
    """
    import http.client
    import json
    import urllib.parse

    try:
        with bridge.open("api/v1/cameras", _TIMEOUT_S) as answer:
            cameras = list(json.load(answer))
        for camera in cameras:
            with bridge.open(f"api/v1/ledger/{urllib.parse.quote(camera)}", _TIMEOUT_S) as answer:
                yield from answer.read().splitlines()
    except ConnectionRejected as exc:
        typer.echo(f"the bridge at {bridge.url} refuses: {exc}; does it want --token-file?", err=True)
        raise typer.Exit(Exit.CHECK_FAILED) from exc
    except (OSError, http.client.HTTPException, ValueError) as exc:
        text = f"no bridge answers at {bridge.url} ({exc}): is `vil-bridge run` up, and `http.port` this one?"
        typer.echo(text, err=True)
        raise typer.Exit(Exit.CHECK_FAILED) from exc
