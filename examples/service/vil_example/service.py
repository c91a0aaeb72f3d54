"""The service: watches the speeds of actors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from vil_bridge.services.service import Service, ServiceHost
from vil_example.config import ExampleConfig
from vil_example.view import ExampleView, View

if TYPE_CHECKING:
    from fastapi import APIRouter

__all__ = ["ExampleService"]


class ExampleService(Service):
    """Watch over actors that must not be fast."""

    def __init__(self, section: Mapping[str, ExampleConfig], host: ServiceHost) -> None:
        self._world = host.world
        self._views = {
            actor: ExampleView(config.limit_mps, fast=False, episodes=0)
            for actor, config in section.items()
        }

    # TODO: override run() where it waits for something, adopt() where a reload may change it.

    def check(self) -> Sequence[str]:
        """Look at the speeds; return a sentence for each actor above its limit."""
        names = [actor.name for actor in self._world.actors]
        speeds_mps = dict(zip(names, self._world.speeds_mps().tolist(), strict=True))
        sentences = []
        for actor, view in self._views.items():
            speed_mps = speeds_mps[actor]
            if math.isnan(speed_mps):
                self._views[actor] = replace(view, speed_mps=None, fast=False)
                continue
            fast = speed_mps > view.limit_mps
            began = fast and not view.fast
            self._views[actor] = replace(
                view, speed_mps=speed_mps, fast=fast, episodes=view.episodes + began
            )
            if fast:
                # TODO: what is wrong, then how to fix it.
                sentences.append(
                    f"{actor} flies {speed_mps:.1f} m/s, its limit is {view.limit_mps:g} m/s. "
                    "Fly slower, or raise limit_mps"
                )
        return sentences

    def view(self) -> View:
        """Return the newest values by actor. Any thread."""
        return dict(self._views)

    def forget(self, actor: str) -> None:
        """Count the episodes of an actor from zero. Raises KeyError: it is not watched."""
        self._views[actor] = replace(self._views[actor], episodes=0)

    def routes(self) -> Sequence[APIRouter]:
        """Return its REST routes."""
        # TODO: remove this and routes.py where there is nothing to ask for.
        from vil_example.routes import example_router

        return (example_router(self.view, self.forget),)
