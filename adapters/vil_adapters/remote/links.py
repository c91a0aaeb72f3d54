"""The transport that an address asks for."""

from __future__ import annotations

from vil_adapters.remote.config import RemoteConfig
from vil_bridge.core.errors import ConfigError, SourceUnavailable
from vil_bridge.protocols.federation.zmq_link import OnMessage, SubscriberLink, ZmqSubscriberLink
from vil_bridge.protocols.zmq.curve import read_public_key, read_secret_key

__all__ = ["make_link"]


def make_link(config: RemoteConfig, on_message: OnMessage) -> SubscriberLink:
    """Return a link that is not open yet.

    Raises:
        SourceUnavailable: a key cannot be read, or zenoh is not installed.
    """
    try:
        if config.zenoh:
            return _zenoh_link(config, on_message)
        keys = None if config.secret_key is None else read_secret_key(config.secret_key)
        server_key = None if config.server_key is None else read_public_key(config.server_key)
    except ConfigError as exc:
        raise SourceUnavailable(str(exc)) from exc
    return ZmqSubscriberLink(config.address, on_message, keys, server_key)


def _zenoh_link(config: RemoteConfig, on_message: OnMessage) -> SubscriberLink:
    try:
        from vil_bridge.protocols.federation.zenoh_link import ZenohSubscriberLink, read_login
    except ModuleNotFoundError as exc:
        raise SourceUnavailable("zenoh is not installed: pip install 'vil-bridge[federation]'") from exc
    login = None if config.login is None else read_login(config.login)
    return ZenohSubscriberLink(config.address, config.site, on_message, login, config.ca_certificate)
