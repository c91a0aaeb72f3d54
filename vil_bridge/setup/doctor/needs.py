"""Checks of a configuration that run nothing.

Is what it needs installed, are its files readable, are humans human?
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from vil_bridge import registry
from vil_bridge.bodies.skeleton import is_human
from vil_bridge.config.base import PluginConfig
from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.types import ActorKind, SkeletonModel
from vil_bridge.daemon.subject_check import NOT_HUMAN, subject_problem
from vil_bridge.protocols.zmq.curve import read_public_key, read_public_keys, read_secret_key


def needs_of(config: BridgeConfig) -> tuple[list[str], list[str]]:
    """Return what keeps a bridge from starting here, and what it only warns of, one line each."""
    problems = [*_not_installed(config), *_keys(config)]
    warnings: list[str] = []
    for name, source in config.sources.items():
        if source.type != "motion-file":
            continue  # only a file has its skeletons before it runs
        try:
            recording = registry.create("sources", name, source).recording
        except ConfigError as exc:
            problems += [f"sources.{name}: {problem}" for problem in exc.problems]
            continue
        warnings += _subjects(config, name, recording.subjects, recording.skeleton_models)
    return problems, warnings


def _not_installed(config: BridgeConfig) -> Iterator[str]:
    """Yield plug-ins that lack a module, with the extra to install."""
    every = {"sources": config.sources, "renderers": config.renderers, "outputs": config.outputs}
    for section, plugins in every.items():
        for place, plugin in _sections(section, plugins).items():
            try:
                registry.implementation(section, plugin.type)
            except ConfigError as exc:
                yield f"{place}: {exc}"
    if config.cameras and (missing := registry.missing("cv2")):
        yield f"cameras: {missing}"
    zenoh = ["federation.zenoh"] if config.federation.zenoh is not None else []
    zenoh += [
        f"sources.{name}"
        for name, source in config.sources.items()
        if getattr(source, "zenoh", False)
    ]
    if zenoh and (missing := registry.missing("zenoh")):
        yield f"{', '.join(zenoh)}: {missing}"


def _keys(config: BridgeConfig) -> Iterator[str]:
    """Yield key files that cannot be used."""
    holders = {
        "federation.zmq": config.federation.zmq,
        "stream": config.stream,
        **_sections("sources", config.sources),
    }
    read = {
        "secret_key": read_secret_key,
        "server_key": read_public_key,
        "allowed_keys": read_public_keys,
    }
    for place, holder in holders.items():
        for key, reader in read.items():
            path = getattr(holder, key, None)
            if isinstance(path, Path):
                try:
                    reader(path)
                except ConfigError as exc:
                    yield f"{place}.{key}: {exc}"


def _sections(section: str, plugins: Mapping[str, PluginConfig]) -> dict[str, PluginConfig]:
    return {f"{section}.{name}": plugin for name, plugin in plugins.items()}


def _subjects(
    config: BridgeConfig, source: str, bodies: tuple[str, ...], models: tuple[SkeletonModel, ...]
) -> Iterator[str]:
    """Yield actors that a motion file does not hold, or holds otherwise than configured."""
    if config.sources[source].model_dump().get("marker_template") is not None:
        return
    for name, actor in config.actors.items():
        if actor.source != source:
            continue
        problem = subject_problem(actor, bodies, [model.name for model in models])
        model = next((model for model in models if model.name == actor.subject), None)
        if (
            not problem
            and actor.kind is ActorKind.HUMAN
            and model is not None
            and not is_human(model)
        ):
            problem = NOT_HUMAN
        if problem:
            yield f"actors.{name}: {problem}"
