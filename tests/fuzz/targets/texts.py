"""Texts that people write: configuration, templates, fault and link texts, key files."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.fuzz.target import Target, scratch
from tests.unit.config.test_config_load import GOOD
from vil_adapters.lab.link_spec import LinkSpec
from vil_bridge.config.load import load
from vil_bridge.config.marker_template import read_template
from vil_bridge.core.errors import ConfigError
from vil_bridge.interfaces.faults import Delivery, Faults
from vil_bridge.protocols.zmq.curve import read_public_key
from vil_bridge.registry import resolve

__all__ = ["TARGETS"]

_FOLDER: Final = scratch()
# Looking for installed plug-ins reads folders, not foreign bytes.
_RESOLVE: Final = functools.cache(resolve)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _configuration(data: bytes) -> None:
    path = _FOLDER / "bridge.yaml"
    path.write_bytes(data)
    load(path, env={}, resolve=_RESOLVE)


def _configurations() -> Iterator[bytes]:
    yield GOOD.encode()
    for path in sorted((Path(__file__).parents[2] / "golden" / "config").glob("*.yaml")):
        yield path.read_bytes()


def _template(data: bytes) -> None:
    path = _FOLDER / "template.yaml"
    path.write_bytes(data)
    read_template(path)


def _faults(data: bytes) -> None:
    """Read the text and let its faults happen to a few messages."""
    faults = Faults.parse(_text(data))
    delivery = Delivery(faults)
    for t_ns in (0, 10**9, 2 * 10**10):
        delivery.delays_ns(t_ns)
        delivery.garbage(t_ns, b"message")
        faults.clock_error_ns(t_ns)
        faults.down(t_ns)


_FAULTS: Final = (
    b"loss=5%,delay=20ms\xc2\xb15,jitter=3ms,duplicate=1%,reorder=2%,garbage=1%,seed=4",
    b"drift=50ppm,step=-2s@5s,halfopen=2s@5s/10s,burst=200ms/1s,restart=1s",
    b"occlude=drone:1s@2s/5s,flip=drone:1s,swap=a+b:1s",
)


def _curve_keys(data: bytes) -> None:
    path = _FOLDER / "bridge.key"
    path.write_bytes(data)
    read_public_key(path)


def _key_files() -> Iterator[bytes]:
    yield b'metadata\n    comment = "x"\ncurve\n    public-key = "' + b"a" * 40 + b'"\n'


_TEMPLATE: Final = b"""person:
  Hips: {markers: [LASI, RASI, SACR]}
  Thigh: {markers: [a, b, c], parent: Hips, origin: [a, b]}
"""

TARGETS: Final = (
    Target("configuration", _configuration, (ConfigError,), _configurations, 2048, limit_ms=500),
    Target("marker-template", _template, (ConfigError,), lambda: [_TEMPLATE], 1024, limit_ms=500),
    Target("faults", _faults, (ConfigError,), lambda: _FAULTS, 512),
    Target(
        "link",
        lambda data: LinkSpec.parse(_text(data)),
        (ConfigError,),
        lambda: [
            b"tcp:7100=127.0.0.1:7000:delay=20ms,up.rate=2Mbit",
            b"7100=192.0.2.7:7000:loss=5%,down.jitter=2ms",
        ],
        256,
    ),
    Target("curve-keys", _curve_keys, (ConfigError,), _key_files, 512),
)
