"""Onboard client of VIL Bridge: ``from vil_bridge_client import Receiver``.

The late warp is in ``client_warp``.
"""

from .client import *  # noqa: F403 - its public names
