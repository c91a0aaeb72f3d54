"""``vil-bridge replay``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vil_bridge.cli.disk_errors import explained_disk_errors
from vil_bridge.cli.options import Sets
from vil_bridge.core.errors import ConfigError

if TYPE_CHECKING:
    from vil_bridge.config.root import BridgeConfig


def replay(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Recording (.mcap).", show_default=False)
    ],
    config: Annotated[
        Path | None,
        typer.Option(
            help="Configuration to replay into; none = the recorded one, without its outputs."
        ),
    ] = None,
    sets: Sets = None,
    rate: Annotated[
        float, typer.Option(min=0.01, max=100, help="Recorded seconds per second.")
    ] = 1.0,
    loop: Annotated[bool, typer.Option("--loop", help="Restart after the end.")] = False,
    fast: Annotated[
        bool,
        typer.Option(
            "--as-fast-as-possible", help="Replay without a clock, with the same result every time."
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the result of --as-fast-as-possible.", show_default=False),
    ] = None,
    scene: Annotated[
        str | None,
        typer.Option(
            help="Draw pictures of this scene (--as-fast-as-possible); none = poses only."
        ),
    ] = None,
    camera: Annotated[
        list[str] | None,
        typer.Option(help="Draw this camera only (--as-fast-as-possible); may be repeated."),
    ] = None,
) -> None:
    """Replay a recording: feed its recorded events to the bridge and render them again."""
    if fast != (out is not None):
        raise ConfigError("--as-fast-as-possible and --out FOLDER go together")
    way = "with"
    others: dict[str, object] = {"--scene": scene, "--camera": camera}
    if fast:
        way = "without"
        others = {"--config": config, "--set": sets, "--rate": rate != 1.0, "--loop": loop}
    if useless := [name for name, value in others.items() if value]:
        raise ConfigError(f"{useless[0]} goes {way} --as-fast-as-possible only")
    if camera and scene is None:
        raise ConfigError("--camera needs --scene")
    if out is not None:
        _offline(file, out, scene, camera)
        return
    from vil_bridge.monitoring.logging_setup import setup_logging

    setup_logging()
    loaded = _config(file, config, sets, rate=rate, loop=loop)
    from vil_bridge.run import run_bridge

    run_bridge(loaded)


def _config(
    file: Path, config: Path | None, sets: list[str] | None, *, rate: float, loop: bool
) -> BridgeConfig:
    """Return the configuration of the bridge to run.

    Raises:
        ConfigError: the configuration given is wrong. RecordingError: the recording or its
            configuration is.
    """
    import tempfile

    import yaml

    from vil_bridge.assembly.recorded import replay_config
    from vil_bridge.cli.options import load_config
    from vil_bridge.recording.reader import Recording

    with Recording(file) as recording:
        own: dict[str, Any] | None = None
        if config is not None:
            own = load_config(config, None).model_dump(mode="json")
        replayed = replay_config(recording, rate=rate, loop=loop, data=own)
    if not sets:
        return replayed
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", encoding="utf-8") as text:
        yaml.safe_dump(replayed.model_dump(mode="json"), text)
        text.flush()
        return load_config(Path(text.name), sets)


def _offline(file: Path, out: Path, scene: str | None, cameras: list[str] | None) -> None:
    from vil_bridge.offline.replay.replay import replay_offline

    with explained_disk_errors(
        out, "nothing was written: free some space, or choose another folder"
    ):
        result = replay_offline(file, out, scene=scene, cameras=cameras)
    pictures = ", ".join(f"{name} {count}" for name, count in result.pictures.items()) or "none"
    typer.echo(
        f"{result.recorded_s:.1f} s of {file.name} in {result.took_s:.1f} s: "
        f"{result.events} events, "
        f"pictures {pictures}"
    )
    typer.echo(f"{result.sha256}  {out}/SHA256SUMS")
