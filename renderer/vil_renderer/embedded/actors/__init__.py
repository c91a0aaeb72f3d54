"""Actors of a snapshot as posed models.

Humans on any skeleton, vehicles with turning blades, props.
"""

from vil_renderer.embedded.actors.actor_models import FIRST_INSTANCE, ActorModels
from vil_renderer.embedded.actors.skinning import skin

__all__ = ["FIRST_INSTANCE", "ActorModels", "skin"]
