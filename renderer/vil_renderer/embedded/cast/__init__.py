"""Actors of a snapshot as posed models: humans on any skeleton, vehicles with turning blades, props."""

from vil_renderer.embedded.cast.cast import FIRST_INSTANCE, Cast
from vil_renderer.embedded.cast.skinning import skin

__all__ = ["FIRST_INSTANCE", "Cast", "skin"]
