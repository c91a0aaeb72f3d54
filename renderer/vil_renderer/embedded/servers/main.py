"""The embedded renderer as a process of its own, behind the wire protocol of FlightGoggles or of
Flightmare.
"""

from __future__ import annotations

import argparse
import ipaddress
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from vil_bridge.core.errors import RendererError
from vil_bridge.core.near_surface import NearSurface
from vil_bridge.core.types import View, WorldSnapshot
from vil_renderer.embedded.engine.opengl import OpenGL
from vil_renderer.embedded.engine.profiles import PROFILES
from vil_renderer.embedded.renderer import EmbeddedRenderer
from vil_renderer.embedded.servers.flightmare import FlightmareServer, serve_flightmare
from vil_renderer.flightgoggles.server import FlightGogglesServerConfig, RenderedRequest, serve
from vil_renderer.flightmare.server import FlightmareServerConfig

logger = logging.getLogger(__name__)

FLIGHTGOGGLES: Final = "flightgoggles"
FLIGHTMARE: Final = "flightmare"
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_EXIT_OK: Final = 0
_EXIT_CANNOT_DRAW: Final = 3


def run(
    client_ip: str = "127.0.0.1",
    input_port: int = 10253,
    output_port: int = 10254,
    scene: str = "hall",
    *,
    profile: str = "low",
    budget_ms: float = 0.0,
    device: int | None = None,
    protocol: str = FLIGHTGOGGLES,
    fifo: bool = False,
    baked: bool = False,
) -> int:
    """Serve until SIGINT or SIGTERM; call it in the main thread of a process of its own.

    Args:
        client_ip: where the bridge listens, numeric.
        input_port: its port of poses.
        output_port: its port of pictures.
        scene: name of the scene to draw, or a scene file; ``client`` = a Flightmare client's
            choice.
        profile: quality: low, medium, high or ultra.
        budget_ms: time for the pictures of one request before a plainer profile is used; 0 = no
            limit.
        device: which GPU, in CUDA's order; None = the first one, else the CPU.
        protocol: ``flightgoggles`` or ``flightmare``.
        fifo: draw every pose in order, as FlightGoggles 2.0.5 does; else the newest that waits.
        baked: static surfaces have the light of all bounces, worked out at the first start
            (minutes).

    Returns:
        The exit code: 0 after a signal, 3 if this machine cannot draw or the address is invalid.
    """
    # One thread shades vertices; more would take the bridge's cores.
    os.environ.setdefault("LP_NUM_THREADS", "1")
    _on_signal(lambda: sys.exit(_EXIT_OK))  # while it loads

    def make(drawn_on: int | OpenGL | None, name: str) -> EmbeddedRenderer:
        renderer = EmbeddedRenderer(
            name, profile, budget_s=1e-3 * budget_ms or None, device=drawn_on, baked=baked
        )
        logger.info("drawing %s with %s for %s", name, renderer.info["gl_renderer"], client_ip)
        return renderer

    try:
        _check_address(client_ip)
        ports = client_ip, input_port, output_port
        if protocol == FLIGHTMARE:
            with OpenGL(device) as opengl:  # scenes change
                _serve_flightmare(
                    partial(make, opengl), scene, FlightmareServerConfig(*ports, folder=Path.cwd())
                )
        else:
            _serve_flightgoggles(
                partial(make, device),
                scene,
                FlightGogglesServerConfig(*ports, newest_only=not fifo),
            )
    except RendererError as exc:
        logger.error("%s", exc)
        return _EXIT_CANNOT_DRAW
    return _EXIT_OK


def _serve_flightmare(
    make: Callable[[str], EmbeddedRenderer], scene: str, config: FlightmareServerConfig
) -> None:
    """Serve Flightmare's clients until a signal."""
    with FlightmareServer(make, scene) as server:
        serve_flightmare(server, config, _stop_event())


def _serve_flightgoggles(
    make: Callable[[str], EmbeddedRenderer], scene: str, config: FlightGogglesServerConfig
) -> None:
    """Serve FlightGoggles' clients until a signal."""
    with make(scene) as renderer:
        serve(partial(answer, renderer), config, _stop_event())


def _check_address(client_ip: str) -> None:
    try:
        ipaddress.IPv4Address(client_ip)
    except ValueError:
        raise RendererError(
            f"{client_ip!r} is not a numeric address of the bridge, such as 127.0.0.1"
        ) from None


def _stop_event() -> threading.Event:
    """Return an event that a signal sets from now on."""
    stop = threading.Event()
    _on_signal(stop.set)
    return stop


def _on_signal(action: Callable[[], object]) -> None:
    for number in _SIGNALS:
        signal.signal(number, lambda *_: action())


def answer(
    renderer: EmbeddedRenderer, views: tuple[View, ...], snapshot: WorldSnapshot
) -> RenderedRequest:
    """Return the pictures of a request, and all that the protocol reports with them."""
    first = views[0]
    return RenderedRequest(
        images=renderer.render(views, snapshot),
        collision=any(view.collision and renderer.collision(view, snapshot) for view in views),
        landmarks=renderer.landmarks(first, snapshot),
        near=_near(renderer, views, snapshot),
        range_m=renderer.range_m(first, snapshot),
        info={"renderer": renderer.info["gl_renderer"], **renderer.info},
    )


def _near(
    renderer: EmbeddedRenderer, views: tuple[View, ...], snapshot: WorldSnapshot
) -> tuple[NearSurface, ...] | None:
    """Return the surfaces near cameras with a reach, each once; None without such a camera."""
    reaching = {view.camera.name: view for view in views if view.reach_m and view.due}
    if not any(view.reach_m for view in views):
        return None
    return tuple(surface for view in reaching.values() for surface in renderer.near(view, snapshot))


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the command line in the manner of the original renderer, which writes one dash."""
    parser = argparse.ArgumentParser(
        prog="vil_renderer.embedded.servers.main", description=__doc__, allow_abbrev=False
    )
    parser.add_argument(
        "-client-ip", "--client-ip", default="127.0.0.1", help="numeric address of the bridge"
    )
    parser.add_argument(
        "-input-port", "--input-port", type=int, default=10253, help="the bridge's port of poses"
    )
    parser.add_argument(
        "-output-port", "--output-port", type=int, default=10254, help="its port of pictures"
    )
    parser.add_argument(
        "-scene", "--scene", default="hall", help="what to draw: a scene's name or its file"
    )
    parser.add_argument(
        "-profile", "--profile", default="low", choices=tuple(PROFILES), help="quality"
    )
    parser.add_argument(
        "-budget-ms", "--budget-ms", type=float, default=0.0, help="time for a request, 0 = any"
    )
    parser.add_argument(
        "-device", "--device", type=int, help="number of the GPU, as CUDA counts; without it any"
    )
    parser.add_argument(
        *("-protocol", "--protocol"),
        default=FLIGHTGOGGLES,
        choices=(FLIGHTGOGGLES, FLIGHTMARE),
        help="of the wire",
    )
    parser.add_argument(
        "-fifo", "--fifo", action="store_true", help="draw every pose in order, not the newest"
    )
    parser.add_argument(
        "-baked", "--baked", action="store_true", help="light of all bounces; minutes at first"
    )
    options = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    return run(
        options.client_ip,
        options.input_port,
        options.output_port,
        options.scene,
        profile=options.profile,
        budget_ms=options.budget_ms,
        device=options.device,
        protocol=options.protocol,
        fifo=options.fifo,
        baked=options.baked,
    )


if __name__ == "__main__":
    sys.exit(main())
