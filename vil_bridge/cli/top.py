"""``vil-bridge top``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from vil_bridge.cli.connect import TokenFile, Where, reach
from vil_bridge.cli.options import Sets
from vil_bridge.core.text import printable
from vil_bridge.runtime.exit_codes import Exit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table

    from vil_bridge.cli.bridge_client import BridgeAddress

_PERIOD_S = 0.25
_TIMEOUT_S = 2.0
_MISSES = 3
_STYLES = {
    "running": "green",
    "tracked": "green",
    "coasting": "yellow",
    "stale": "red",
    "frozen": "red",
    "lost": "red",
    "waiting": "red",
    "leaving": "yellow",
    "collision": "red",
}
_COLUMNS = ("", "name", "state", "rate Hz", "age ms", "latency ms p50/p95", "lost", "")


def top(
    where: Where = "http://127.0.0.1:8080",
    sets: Sets = None,
    token_file: TokenFile = None,
    once: Annotated[bool, typer.Option("--once", help="Print one sample and end.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one line of JSON per sample.")
    ] = False,
) -> None:
    """Watch a running bridge: rates, ages, latencies and losses, four times a second, until Ctrl-C.

    A table on a terminal, plain lines elsewhere: `vil-bridge top lab.yaml`, `vil-bridge top
    --once`. Ends with 0 when the bridge ends, with 3 when none answers.
    """
    import contextlib
    import sys

    bridge = reach(where, sets, token_file, timeout_s=_TIMEOUT_S)
    samples = _samples(bridge)
    with contextlib.suppress(KeyboardInterrupt):
        if not (as_json or once) and sys.stdout.isatty():
            _live(samples)
        else:
            for sample in samples:
                typer.echo(_json_line(sample) if as_json else _plain(sample))
                sys.stdout.flush()
                if once:
                    return
        typer.echo(f"the bridge at {bridge.site} has ended", err=True)


def _samples(bridge: BridgeAddress) -> Iterator[dict[str, Any]]:
    """Yield the status of the bridge four times a second, until it is gone.

    Raises:
        typer.Exit: it never answered.
    """
    import time

    from vil_bridge.web.client.errors import RestError

    seen = False
    misses = 0
    due_s = time.monotonic()
    while misses < _MISSES:
        try:
            sample = _fetch(bridge)
        except RestError as exc:
            if not seen:
                typer.echo(bridge.problem(exc), err=True)
                raise typer.Exit(Exit.CHECK_FAILED) from None
            misses += 1
        else:
            seen = True
            misses = 0
            yield sample
        due_s = max(due_s + _PERIOD_S, time.monotonic())
        time.sleep(max(0.0, due_s - time.monotonic()))


def _fetch(bridge: BridgeAddress) -> dict[str, Any]:
    """Return the status.

    Raises:
        ConfigError: the bridge asks for a token, or for another one.
        RestError: nothing answers, or not a bridge.
    """
    from vil_bridge.core.errors import ConfigError
    from vil_bridge.web.client.connection import path_of
    from vil_bridge.web.client.errors import NotAllowed, RestError

    try:
        status = bridge.get(dict[str, Any], path_of("status"))
    except NotAllowed as exc:
        raise ConfigError(
            f"{bridge.site}: {exc.status}: {exc}; give --token-file, or its file"
        ) from None
    if "sources" not in status:
        raise RestError(200, "the answer is not the status of a bridge")
    return status


# --- table and lines ------------------------------------------------------------------------------


def rows_of(status: dict[str, Any]) -> list[dict[str, Any]]:
    """Return one row for every source, actor, camera and stream; what is unknown is None."""
    from vil_bridge.interfaces.services import service_views

    rows: list[dict[str, Any]] = []
    for name, source in status["sources"].items():
        report = source["report"]
        lost = sum(
            report["counters"].get(reason, 0) for reason in ("lost", "malformed", "rejected")
        )
        note = report["reason"] or source.get("degraded", "")
        rows.append(
            _row(
                "source",
                name,
                report["state"],
                source["rate_hz"],
                source["age_s"],
                lost=lost,
                note=note,
            )
        )
    for name, actor in status["actors"].items():
        rows.append(
            _row(
                "actor",
                name,
                actor["state"],
                None,
                actor["age_s"],
                note=actor.get("problem") or f"{actor['source']} {actor['subject']}",
            )
        )
    for name, renderer in status["renderers"].items():
        report = renderer["report"]
        note = (
            report["reason"]
            or renderer["note"]
            or f"draws {', '.join(renderer['cameras']) or 'nothing'}"
        )
        rows.append(
            _row("renderer", name, report["state"], renderer["pictures_hz"], None, note=note)
        )
    for name, camera in status["cameras"].items():
        total = camera["latency"].get("capture_to_received", {})
        recent = total.get("last_10_s", {})
        lost = sum(camera["dropped"].values())
        drawn_by = f"drawn by {camera['renderer']} ({camera['assigned']})"
        note = camera.get("problem") or camera.get("degraded") or drawn_by
        row = _row("camera", name, "", camera["measured_hz"], camera["age_s"], lost=lost, note=note)
        rows.append(row | {"p50_ms": recent.get("p50_ms"), "p95_ms": recent.get("p95_ms")})
    for name, stream in status["streams"].items():
        readers = f"{len(stream['subscribers'])} readers"
        rows.append(
            _row("stream", name, "", None, None, lost=sum(stream["dropped"].values()), note=readers)
        )
    for service, view in service_views().items():
        for kind, name, state, note in view.rows(status.get(service) or {}):
            rows.append(_row(kind, name, state, None, None, note=note))
    return rows


def _row(
    kind: str,
    name: str,
    state: str,
    rate_hz: float | None,
    age_s: float | None,
    *,
    lost: int | None = None,
    note: str = "",
) -> dict[str, Any]:
    age_ms = None if age_s is None else 1e3 * age_s
    row: dict[str, Any] = {
        "kind": kind,
        "name": name,
        "state": state,
        "rate_hz": rate_hz,
        "age_ms": age_ms,
    }
    return row | {"p50_ms": None, "p95_ms": None, "lost": lost, "note": note}


def _json_line(status: dict[str, Any]) -> str:
    import json

    head = {
        key: status[key]
        for key in ("name", "t_ns", "uptime_s", "ready", "not_ready_because", "degraded_because")
    }
    return json.dumps({**head, "rows": rows_of(status)})


def _decimal(value: float | None) -> str:
    """Return a number with one decimal; empty where it is not known."""
    if value is None:
        return ""
    return f"{value:.1f}"


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    """Return a row's texts; peers' names and words come without control characters."""
    latency = "" if row["p50_ms"] is None else f"{row['p50_ms']:.1f} / {row['p95_ms']:.1f}"
    rate = _decimal(row["rate_hz"])
    age = _decimal(row["age_ms"])
    lost = "" if row["lost"] is None else str(row["lost"])
    kind, name, state, note = (printable(row[key]) for key in ("kind", "name", "state", "note"))
    return kind, name, state, rate, age, latency, lost, note


def _headline(status: dict[str, Any]) -> str:
    ready = "ready"
    if not status["ready"]:
        ready = "not ready: " + "; ".join(status["not_ready_because"])
    elif status["degraded_because"]:
        ready = "degraded: " + "; ".join(status["degraded_because"])
    return printable(
        f"{status['name']}, up {status['uptime_s']:.0f} s, {ready}{_pace(status.get('simulation'))}"
    )


def _pace(simulation: dict[str, Any] | None) -> str:
    """Return the pace of simulated time; empty if time is real."""
    if simulation is None:
        return ""
    if simulation["paused"]:
        return "; simulated time is paused"
    return (
        f"; simulated time at {simulation['reached']:.2f} of {simulation['speed']:g} s per second"
    )


def _plain(status: dict[str, Any]) -> str:
    lines = [_headline(status)]
    for row in rows_of(status):
        kind, name, state, rate, age, latency, lost, note = _cells(row)
        parts = [
            state,
            rate and f"{rate} Hz",
            age and f"age {age} ms",
            latency and f"latency {latency} ms",
        ]
        parts += [lost and f"lost {lost}", note]
        lines.append(f"  {kind:<9}{name:<20}{', '.join(filter(None, parts))}")
    return "\n".join(lines)


def _live(samples: Iterator[dict[str, Any]]) -> None:
    """Show a table that is redrawn in place."""
    from rich.live import Live

    with Live(auto_refresh=False, transient=False) as live:
        for sample in samples:
            live.update(table_of(sample), refresh=True)


def table_of(status: dict[str, Any]) -> Table:
    """Return the rows as a table for a terminal."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(_headline(status)), title_justify="left", box=None, pad_edge=False)
    for i, column in enumerate(_COLUMNS):
        table.add_column(column, justify="right" if i in (3, 4, 5, 6) else "left", no_wrap=i != 7)
    for row in rows_of(status):
        cells = [Text(cell) for cell in _cells(row)]
        cells[2].stylize(_STYLES.get(row["state"], ""))
        table.add_row(*cells)
    return table
