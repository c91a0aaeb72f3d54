"""``vil-bridge demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vil_bridge.core.installation import install_command
from vil_bridge.runtime.exit_codes import Exit


def demo(
    seconds: Annotated[
        float, typer.Option(min=0, help="Length of the whole demo; 0 = until Ctrl-C.")
    ] = 30.0,
    json_path: Annotated[Path, typer.Option("--json", help="Where the summary goes.")] = Path(
        "out/demo/summary.json"
    ),
    recording: Annotated[
        Path | None,
        typer.Option(help="Folder of a real flight (EuRoC layout) instead of the simulated drone."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for pictures and logs.")] = Path("out/demo"),
    record: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Record everything into this new file (.mcap)."),
    ] = None,
    http_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the status page; 0 = any free one.")
    ] = 0,
) -> None:
    """Show everything without hardware.

    An emulated lab, the embedded renderer, the bridge and a client.
    """
    import sys
    from importlib.util import find_spec

    from vil_bridge.core.errors import ConfigError, VilBridgeError
    from vil_simulation.demo.child_processes import ProcessGroup
    from vil_simulation.demo.first import DemoOptions, start_renderer

    if absent := [module for module in ("cv2", "moderngl") if find_spec(module) is None]:
        raise ConfigError(f"the demo needs {' and '.join(absent)}: {install_command('demo')}")
    if recording is not None and not recording.is_dir():
        raise ConfigError(f"--recording {recording}: no such folder")
    try:
        options = DemoOptions(seconds, out, json_path, recording, http_port, record)
        out.mkdir(parents=True, exist_ok=True)
        with ProcessGroup(out) as processes:
            begun = start_renderer(options, processes)
            print(f"status page  {begun.url}   (logs and pictures: {out}/)", flush=True)
            from vil_simulation.demo.run import run_demo  # slow to import

            flown = run_demo(options, begun, processes, lambda line: print(line, flush=True))
    except ConfigError:
        raise
    except VilBridgeError as exc:
        print(f"error: {exc}", file=sys.stderr)
        flown = False
    raise typer.Exit(Exit.OK if flown else Exit.CHECK_FAILED)
