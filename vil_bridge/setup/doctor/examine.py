"""All checks in the order in which people read them."""

from __future__ import annotations

import asyncio
import platform
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from vil_bridge import __version__, registry
from vil_bridge.config.base import PluginConfig
from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.errors import ConfigError
from vil_bridge.setup.doctor.finding import Finding, State, fail
from vil_bridge.setup.doctor.kernel import (
    check_clock_source,
    check_clock_sync,
    check_disk,
    check_ptp,
    check_realtime,
    check_receive_buffer,
    check_reverse_path,
    check_udp_errors,
    udp_errors,
)
from vil_bridge.setup.doctor.network import (
    Interface,
    check_interfaces,
    check_multicast,
    check_port,
    check_route,
    check_serial,
    interfaces,
)
from vil_bridge.setup.doctor.software import (
    check_compiled_kernel,
    check_extra,
    check_gl,
    check_jpeg,
    check_sdks,
    check_video,
)
from vil_bridge.setup.doctor.watch import (
    LISTEN_S,
    SourceActivity,
    check_answer,
    check_clock,
    check_frozen,
    check_subject,
    check_up_axis,
    listen,
)

_ROOT: Final = Path("/")
_PACKAGES: Final = (
    "numpy",
    "scipy",
    "pyzmq",
    "opencv-python-headless",
    "simplejpeg",
    "fastapi",
    "moderngl",
    "av",
)
_MARK: Final = {State.OK: "ok  ", State.WARN: "warn", State.FAIL: "FAIL"}


def examine(
    config: BridgeConfig | None, *, root: Path = _ROOT, seconds: float = LISTEN_S
) -> list[Finding]:
    """Look at this computer and, with a configuration, at everything that it names.

    Args:
        config: the bridge that shall run here; None = this computer only.
        root: where /proc and /sys are.
        seconds: how long its sources are listened to.
    """
    own = interfaces()
    before = udp_errors(root)
    configured = [] if config is None else list(_configured(config, own, seconds))
    return [
        *_computer(root, own),
        check_udp_errors(before, udp_errors(root)),
        *_software(config),
        *configured,
    ]


def _computer(root: Path, own: Sequence[Interface]) -> Iterator[Finding]:
    outside = [i for i in own if not i.address.startswith("127.")]
    yield check_interfaces(own)
    for interface in outside:
        yield check_multicast(interface, root=root)
    yield check_reverse_path(root, len(outside))
    yield check_receive_buffer(root)
    yield check_clock_source(root)
    yield check_clock_sync()
    yield check_ptp(root)
    yield check_realtime()
    yield check_disk(Path.cwd())


def _software(config: BridgeConfig | None) -> Iterator[Finding]:
    needed = {"cv2"} if config is not None and config.cameras else set()
    yield check_gl()
    yield check_compiled_kernel()
    yield check_jpeg()
    yield check_video()
    for module in dict.fromkeys(
        {
            extra: module for module, extra in registry.EXTRA_OF_MODULE.items() if extra != "gl"
        }.values()
    ):
        yield check_extra(module, needed=module in needed)
    yield check_sdks()


def _configured(
    config: BridgeConfig, own: Sequence[Interface], seconds: float
) -> Iterator[Finding]:
    yield check_port("http", config.http.bind, config.http.port)
    yield _endpoint_port("stream", config.stream.bind)
    if config.federation.zmq is not None:
        yield _endpoint_port("federation.zmq", config.federation.zmq.bind)
    if config.federation.zenoh is not None and not config.federation.zenoh.listen.startswith(
        "quic"
    ):
        yield _endpoint_port("federation.zenoh", config.federation.zenoh.listen)
    for name, renderer in config.renderers.items():
        for key in ("pose_port", "image_port"):
            listened = getattr(renderer, key, None)
            if isinstance(listened, int):
                yield check_port(
                    f"{name} ({key})", str(getattr(renderer, "bind", "127.0.0.1")), listened
                )
    for name, source in config.sources.items():
        yield from _place(name, source, own)
    unusable = {name: reason for name in config.sources if (reason := _unusable(config, name))}
    for name, reason in unusable.items():
        yield fail(f"source {name}", reason, reason.rpartition(": ")[2])
    usable = [name for name in config.sources if name not in unusable]
    for name, activity in asyncio.run(listen(config, usable, seconds)).items():
        yield from _source(config, name, activity)


def _endpoint_port(what: str, endpoint: str) -> Finding:
    """Return the TCP port of ``tcp://ADDRESS:PORT`` or ``tcp/ADDRESS:PORT``."""
    host, _, port = endpoint.removeprefix("tcp://").rpartition("/")[2].rpartition(":")
    return check_port(what, host.strip("[]"), int(port))


def _unusable(config: BridgeConfig, name: str) -> str:
    """Return the reason that a source cannot be made (something is not installed), empty when it
    can.
    """
    try:
        registry.create("sources", name, config.sources[name])
    except ConfigError as exc:
        return str(exc)
    return ""


def _place(name: str, source: PluginConfig, own: Sequence[Interface]) -> Iterator[Finding]:
    """Yield the way to a source: a route or a serial line."""
    server = getattr(source, "server", None)
    device = getattr(source, "device", None)
    if isinstance(server, str):
        yield check_route(name, server, str(getattr(source, "interface", "auto")), own)
    if isinstance(device, str):
        yield check_serial(name, device)


def _source(config: BridgeConfig, name: str, activity: SourceActivity) -> Iterator[Finding]:
    """Judge what a source sent; without an answer there is nothing more to judge."""
    yield check_answer(name, activity)
    if not activity.events:
        return
    for actor_name, actor in config.actors.items():
        if actor.source == name:
            yield check_subject(actor_name, actor, activity)
    up_axis = getattr(config.sources[name], "up_axis", None)
    for finding in (
        check_frozen(name, activity),
        check_up_axis(name, activity, up_axis),
        check_clock(name, activity),
    ):
        if finding is not None:
            yield finding


def report_header() -> dict[str, Any]:
    """Return the facts that a bug report needs about this computer.

    No names, no addresses, no secrets.
    """
    return {
        "vil-bridge": __version__,
        "python": sys.version.split()[0],
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "packages": {name: found for name in _PACKAGES if (found := _version(name))},
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def as_text(findings: Sequence[Finding]) -> str:
    """Return one line per check, the cure below what is not well."""
    width = max((len(f.name) for f in findings), default=0)
    lines = []
    for finding in findings:
        lines.append(f"{_MARK[finding.state]}  {finding.name:<{width}}  {finding.text}")
        if finding.cure:
            lines.append(f"      {'':<{width}}  -> {finding.cure}")
    states = [finding.state for finding in findings]
    counts = {state: states.count(state) for state in State}
    lines.append(
        f"{counts[State.OK]} ok, {counts[State.WARN]} warnings, {counts[State.FAIL]} failed"
    )
    return "\n".join(lines)
