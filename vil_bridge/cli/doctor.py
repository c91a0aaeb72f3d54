"""``vil-bridge doctor``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vil_bridge.cli.options import Sets, load_config, quiet_logs
from vil_bridge.runtime.exit_codes import Exit


def doctor(
    config: Annotated[
        Path | None,
        typer.Argument(
            metavar="[CONFIG]", help="Configuration to examine too.", show_default=False
        ),
    ] = None,
    sets: Sets = None,
    report: Annotated[
        bool, typer.Option("--report", help="Print versions first, for a bug report.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check this computer for problems: 0 = none, 3 = a check failed.

    Each problem comes with its cure.

    Without a configuration it checks this computer: interfaces, multicast, buffers, clocks, OpenGL,
    codecs, extras. With one it also checks its ports, routes, serial lines and sources, to which it
    listens for a few seconds: `vil-bridge doctor lab.yaml --report > report.txt`.
    """
    import json
    from dataclasses import asdict

    from vil_bridge.core.errors import ConfigError
    from vil_bridge.core.text import printable_lines
    from vil_bridge.setup.doctor import examine as doctors
    from vil_bridge.setup.doctor.finding import State, fail

    try:
        loaded = None if config is None else load_config(config, sets)
        unread = []
    except ConfigError as exc:
        loaded = None
        cure = "correct that place; `vil-bridge init` prints good examples"
        unread = [fail("configuration", problem, cure) for problem in exc.problems]
    quiet_logs()
    findings = [*unread, *doctors.examine(loaded)]
    if as_json:
        header = doctors.report_header() if report else {}
        typer.echo(json.dumps({**header, "findings": [asdict(f) for f in findings]}, indent=2))
    else:
        if report:
            typer.echo(
                "\n".join(f"{key}: {value}" for key, value in doctors.report_header().items())
                + "\n"
            )
        typer.echo(printable_lines(doctors.as_text(findings)))
    if any(f.state is State.FAIL for f in findings):
        raise typer.Exit(Exit.CHECK_FAILED)
