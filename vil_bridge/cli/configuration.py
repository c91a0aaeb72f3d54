"""``vil-bridge check``, ``init`` and ``schema``: everything about configuration files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from vil_bridge.cli.options import ConfigPath, Sets, load_config

if TYPE_CHECKING:
    from vil_bridge.config.root import BridgeConfig


def check(
    config: ConfigPath,
    sets: Sets = None,
    effective: Annotated[
        bool,
        typer.Option(
            "--effective", help="Print the configuration with every default and override."
        ),
    ] = False,
) -> None:
    """Validate a configuration, and that what it needs is installed.

    0 = good, 2 = bad, with every problem.
    """
    import hashlib

    from vil_bridge.core.errors import ConfigError
    from vil_bridge.setup.doctor.needs import needs_of

    loaded = load_config(config, sets)
    if effective:
        import yaml

        typer.echo(
            yaml.safe_dump(loaded.model_dump(mode="json"), sort_keys=False, allow_unicode=True),
            nl=False,
        )
        return
    problems, warnings = needs_of(loaded)
    if problems:
        raise ConfigError([f"{config}: {problem}" for problem in problems])
    digest = hashlib.sha256(config.read_bytes()).hexdigest()[:12]
    typer.echo(f"{config} is good (sha256 {digest})")
    for line in _summary(loaded):
        typer.echo(f"  {line}")
    for warning in warnings:
        typer.echo(f"warning: {warning}", err=True)


def _summary(config: BridgeConfig) -> list[str]:
    from vil_bridge.registry import plugin_names

    parts = {
        "rooms": list(config.rooms),
        "sources": [f"{name} ({source.type})" for name, source in config.sources.items()],
        "actors": [f"{name} ({actor.kind})" for name, actor in config.actors.items()],
        "renderers": [f"{name} ({renderer.type})" for name, renderer in config.renderers.items()],
        "cameras": [
            f"{name} (on {camera.actor})" for name, camera in config.every_camera().items()
        ],
        "outputs": [f"{name} ({output.type})" for name, output in config.outputs.items()],
        "known source types": plugin_names("sources"),
        "known renderer types": plugin_names("renderers"),
        "known output types": plugin_names("outputs"),
    }
    return [f"{what}: {', '.join(names) or 'none'}" for what, names in parts.items()]


def init(
    preset: Annotated[
        str, typer.Argument(metavar="[PRESET]", help="Name of a preset; none lists them.")
    ] = "",
) -> None:
    """Print a commented configuration to start from: `vil-bridge init lab_optitrack > lab.yaml`."""
    from vil_bridge.config.presets import preset_names, preset_text
    from vil_bridge.config.references import similar
    from vil_bridge.core.errors import ConfigError

    names = preset_names()
    if not preset:
        for name in names:
            typer.echo(f"{name:<16} {preset_text(name).partition(chr(10))[0].lstrip('# ')}")
        return
    if preset not in names:
        raise ConfigError(
            f"no preset is named {preset!r}; known: {', '.join(names)}{similar(preset, names)}"
        )
    typer.echo(preset_text(preset), nl=False)


def schema() -> None:
    """Print the JSON Schema of configuration files, for completion in editors."""
    import json

    from vil_bridge.config.schema import json_schema
    from vil_bridge.registry import plugin_names, resolve

    known = {}
    for section in ("sources", "renderers", "outputs"):
        known[section] = [resolve(section)[name]() for name in plugin_names(section)]
    typer.echo(json.dumps(json_schema(known), indent=2))
