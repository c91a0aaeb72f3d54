"""Changes to a running bridge: mounts, faults, obstacles, and the configuration read again."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
from pydantic import ValidationError

from vil_bridge.assembly.world import camera_info
from vil_bridge.config.base import TransformConfig, check_faults
from vil_bridge.config.diff import Key, changed_keys, merged
from vil_bridge.config.lighting import LightingConfig
from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.errors import ConfigError, SinkError, ValueRefused
from vil_bridge.core.geometry import Transform, q_to_euler_zyx
from vil_bridge.core.types import ActorKind, ActorState, TrackingState
from vil_bridge.daemon.context import BridgeContext
from vil_bridge.daemon.sources import SourceRunner
from vil_bridge.interfaces.event_loop import LoopBusyError, in_loop
from vil_bridge.registry import resolve
from vil_bridge.web.schemas.controls import MountView, PropView, ReloadView

logger = logging.getLogger(__name__)

_MOST_PROPS: Final = 64
_MOST_NAMES: Final = 256
"""Renderers remember every object that they ever drew."""
_LONGEST_M: Final = 1000.0
_CAMERA_KEYS: Final = frozenset(
    {
        "T_body_camera",
        "predict",
        "rolling_shutter_ms",
        "artificial_delay_ms",
        "artificial_jitter_ms",
        "max_age_ms",
    }
)
_ROOM_KEYS: Final = frozenset({"walls", "margin_m"})


class BridgeControls:
    """The bridge's side of :class:`~vil_bridge.web.schemas.controls.Controls`.

    For any thread but the loop's.

    Args:
        reread: reads the configuration again, as it was read at the start; None = there is no file.
    """

    def __init__(self, context: BridgeContext, reread: Callable[[], BridgeConfig] | None) -> None:
        self._context = context
        self._reread = reread
        self._lock = threading.Lock()
        self._hangups = 0
        self._props: dict[str, PropView] = {}
        self._named: set[str] = set()

    def mount(self, camera: str) -> MountView:
        """Return the mount of a camera."""
        return _mount_view(self._context.cameras[camera].camera.T_body_camera)

    def set_mount(self, camera: str, mount: MountView) -> None:
        """Move a camera, and the right one of its pair with it.

        Raises:
            ValueError: it is the right one, or the numbers are not a pose.
        """
        left = self._context.config.left_of(camera) if camera in self._context.cameras else ""
        if left:
            raise ValueError(
                f"{camera} is the right camera of {left} and moves with it: move {left}"
            )
        place = _place(_pose(mount))
        with self._lock:
            config = self.in_force()
            moved = config.cameras[camera].model_copy(update={"T_body_camera": place})
            self._adopt(config.model_copy(update={"cameras": {**config.cameras, camera: moved}}))

    def faults(self, source: str) -> str:
        """Return the faults injected into a source."""
        return self._context.sources[source].faults

    def set_faults(self, source: str, text: str) -> None:
        """Inject other faults into a source.

        Raises:
            ConfigError: the text is malformed, or asks for a fault that works with emulators only.
        """
        check_faults(text)
        with self._lock:
            self._in_loop(_set_faults(self._context.sources[source], text))
            config = self._context.config
            if hasattr(config.sources[source], "faults"):
                faulty = config.sources[source].model_copy(update={"faults": text})
                self._context.config = config.model_copy(
                    update={"sources": {**config.sources, source: faulty}}
                )
        logger.info("source %s: faults asked for: %s", source, text or "none")

    def props(self) -> Mapping[str, PropView]:
        """Return the obstacles by name."""
        return dict(self._props)

    def set_prop(self, name: str, prop: PropView) -> PropView:
        """Put an obstacle into the world, or move it; returns it with a quaternion of length 1.

        Raises:
            ValueError: there are too many, an actor has its name, or the numbers are not a box.
        """
        x, y, z, w = _pose(prop).q_xyzw.tolist()
        prop = replace(prop, q_xyzw=(x, y, z, w))
        if not all(0.0 < side <= _LONGEST_M for side in prop.size_m):
            raise ValueRefused(f"size_m: every side is more than 0 and at most {_LONGEST_M:.0f} m")
        if name in self._context.config.actors:
            raise ValueError(f"an actor is named {name!r}: take another name")
        with self._lock:
            if name not in self._props and len(self._props) >= _MOST_PROPS:
                raise ValueError(f"there are {_MOST_PROPS} obstacles already: remove one")
            if name not in self._named and len(self._named) >= _MOST_NAMES:
                raise ValueError(
                    f"{_MOST_NAMES} different names were used in this run: use one of them again"
                )
            self._named.add(name)
            self._show({**self._props, name: prop})
        return prop

    def remove_prop(self, name: str) -> None:
        """Take an obstacle away."""
        with self._lock:
            if name not in self._props:
                raise KeyError(name)
            self._show({n: p for n, p in self._props.items() if n != name})

    def effective(self) -> dict[str, Any]:
        """Return the configuration in force."""
        return self.in_force().model_dump(mode="json")

    def reload(self) -> ReloadView:
        """Read the configuration again and apply what can change in flight.

        Raises:
            ConfigError: the file is bad, or an output cannot be had; nothing was changed.
            ValueError: there is no file, or the changes hang on others that need a restart.
        """
        if self._reread is None:
            raise ValueError("this bridge was not started from a file")
        with self._lock:
            wanted = self._reread()
            changes = changed_keys(self.effective(), wanted.model_dump(mode="json"))
            lively = [key for key in changes if _in_flight(key)]
            if lively:
                data = merged(self.effective(), wanted.model_dump(mode="json"), lively)
                self._apply(data, lit=any(key[0] == "lighting" for key in lively))
        applied = tuple(".".join(key) for key in changes if key in lively)
        waiting = tuple(".".join(key) for key in changes if key not in lively)
        logger.info("configuration read again: applied %s", ", ".join(applied) or "nothing")
        return ReloadView(applied, waiting)

    def on_hangup(self) -> None:
        """Reload in the background (loop thread, SIGHUP), once more if asked during that.

        Refusals are logged.
        """
        self._hangups = min(2, self._hangups + 1)
        if self._hangups == 1:
            self._reload_behind()

    def _reload_behind(self) -> None:
        self._context.loop.run_in_executor(None, self._reload_and_log).add_done_callback(
            self._reloaded
        )

    def _reloaded(self, _done: asyncio.Future[None]) -> None:
        self._hangups -= 1
        if self._hangups:
            self._reload_behind()

    def _reload_and_log(self) -> None:
        try:
            result = self.reload()
        except (ConfigError, ValueError) as exc:
            logger.error("the configuration stays as it was: %s", exc)
        else:
            for key in result.needs_restart:
                logger.warning("%s was changed in the file and needs a restart", key)

    def in_force(self) -> BridgeConfig:
        """Return the configuration with the light and the outputs of now, which change by
        themselves. Any thread.
        """
        light = LightingConfig.of(self._context.world.lighting)
        running = {name: config for name, (_, config) in self._context.outputs.outputs.items()}
        return self._context.config.model_copy(update={"lighting": light, "outputs": running})

    def _apply(self, data: dict[str, Any], *, lit: bool) -> None:
        try:
            config = BridgeConfig.model_validate(data, context={"resolve": resolve})
        except ValidationError as exc:
            first = exc.errors(include_url=False)[0]
            place = ".".join(map(str, first["loc"]))
            raise ValueError(
                f"nothing was applied: {place}: {first['msg']} before a restart takes the rest"
            ) from None
        self._in_loop(self._exchange(config))
        self._adopt(config, lit=lit)

    async def _exchange(self, config: BridgeConfig) -> None:
        cameras = config.every_camera()
        old = self._context.config.every_camera()
        coming = {
            name: camera_info(name, cameras[name])
            for name in self._context.cameras
            if cameras[name] != old[name]
        }
        try:
            await self._context.outputs.exchange(config.outputs, coming)
        except (SinkError, OSError) as exc:
            raise ConfigError(f"outputs: {exc}") from exc
        for name, runner in self._context.sources.items():
            runner.set_faults(getattr(config.sources[name], "faults", runner.faults))

    def _adopt(self, config: BridgeConfig, *, lit: bool = False) -> None:
        """Nothing of it can fail: what can be refused was asked before."""
        context = self._context
        before = context.config
        context.config = config
        cameras = config.every_camera()
        old = before.every_camera()
        for name, runner in context.cameras.items():
            if cameras[name] != old[name]:
                runner.retune(cameras[name], config)
        for service in context.services.values():
            service.adopt(config)
        if lit:
            context.world.lighting = config.lighting.lighting()

    def _show(self, props: dict[str, PropView]) -> None:
        self._props = props
        self._context.world.props = tuple(
            ActorState(
                n,
                ActorKind.PROP,
                TrackingState.TRACKED,
                0,
                _pose(p),
                prefab=p.prefab,
                size_m=p.size_m,
            )
            for n, p in props.items()
        )

    def _in_loop(self, work: Coroutine[Any, Any, None]) -> None:
        """Run work in the loop. Raises ConfigError: an output cannot be had.

        ValueError: the loop is busy.
        """
        try:
            in_loop(self._context.loop, work)
        except LoopBusyError as exc:
            raise ValueError(str(exc)) from None


async def _set_faults(runner: SourceRunner, text: str) -> None:
    runner.set_faults(text)


def _in_flight(key: Key) -> bool:
    """Return True for a change that can be applied while the bridge runs."""
    match key:
        case ("cameras", _, what):
            return what in _CAMERA_KEYS
        case ("rooms", _, what):
            return what in _ROOM_KEYS
        case ("sources", _, what):
            return what == "faults"
        case ("outputs", _, *_):
            return True
        case _:
            return key[0] == "lighting"


def _pose(given: MountView | PropView) -> Transform:
    """Return a pose. Raises ValueRefused: the numbers are not a pose."""
    numbers = np.array([*given.p_m, *given.q_xyzw])
    norm = float(np.linalg.norm(numbers[3:]))
    if not np.isfinite(numbers).all() or not 0.5 < norm < 2.0:
        raise ValueRefused("p_m and q_xyzw: numbers, and a quaternion of length 1, scalar last")
    return Transform.of(given.p_m, numbers[3:] / norm)


def _place(pose: Transform) -> TransformConfig:
    ypr_deg = np.degrees(q_to_euler_zyx(pose.q_xyzw))
    return TransformConfig(p_m=tuple(pose.p_m.tolist()), ypr_deg=tuple(ypr_deg.tolist()))


def _mount_view(pose: Transform) -> MountView:
    x, y, z, w = pose.q_xyzw.tolist()
    return MountView((float(pose.p_m[0]), float(pose.p_m[1]), float(pose.p_m[2])), (x, y, z, w))
