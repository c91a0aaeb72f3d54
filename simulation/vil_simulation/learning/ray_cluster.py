"""Connection with a Ray cluster (extra ``ray``)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any, Final

from vil_bridge.core.errors import VilBridgeError
from vil_bridge.core.installation import install_command

_ATTEMPTS: Final = "2"
"""Of Ray to reach a cluster, 41 s each where none answers; its default is 20."""


@contextlib.contextmanager
def ray_cluster(
    address: str, *, workers: int | None = None, log_to_driver: bool = False
) -> Iterator[Any]:
    """Yield the module ``ray``: connected already, or connected until the block is left.

    Args:
        address: of a running cluster, as Ray writes it (``auto``, ``host:port``); ``local`` = a Ray
            of our own here.
        workers: processors of a Ray of our own; None = all of this machine.
        log_to_driver: print what Ray's processes print.

    Raises:
        VilBridgeError: Ray is not installed, or no cluster answers at the address.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if address != "local":
        # Ray reads it when it is imported.
        os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", _ATTEMPTS)
    try:
        import ray
    except ModuleNotFoundError as exc:
        raise VilBridgeError(f"Ray is not installed. Install it: {install_command('ray')}") from exc
    if ray.is_initialized():
        yield ray
        return
    options: dict[str, Any] = {"address": address}
    if address == "local":
        options = {
            "num_cpus": workers,
            "include_dashboard": False,
            "_node_ip_address": "127.0.0.1",
        }
    try:
        ray.init(**options, log_to_driver=log_to_driver)
    except Exception as exc:  # Ray's own has no name
        raise VilBridgeError(
            f"there is no Ray at {address!r}, or it did not start in time: {exc}"
        ) from exc
    try:
        yield ray
    finally:
        ray.shutdown()
