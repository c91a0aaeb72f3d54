"""Shaders of glTF's features.

Every pair of features compiles, with and without weather, shadow and baked light.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from tests.support.common import needs_gl
from vil_renderer.embedded.engine.context import open_context
from vil_renderer.embedded.engine.programs import PassOptions, Programs
from vil_renderer.embedded.engine.targets import PassOutput

pytestmark = [pytest.mark.gl, pytest.mark.long]

FEATURES = (
    ("ALPHA_MASK",),
    ("BLEND", "VERTEX_COLOUR", "VERTEX_ALPHA"),
    ("EMISSIVE", "MIRROR_U"),
    ("FINISHED", "SHINY", "COAT", "COAT_MAP", "COAT_ROUGH_MAP", "COAT_NORMAL_MAP"),
    ("FINISHED", "SHINY", "SHEEN", "SHEEN_MAP", "SHEEN_ROUGH_MAP"),
    ("FINISHED", "SHINY", "SPECULAR", "SPECULAR_MAP", "SPECULAR_COLOUR_MAP"),
    ("FINISHED", "TRANSMISSION", "TRANSMISSION_MAP"),
    ("FINISHED", "TRANSMISSION", "FILTER"),
    ("NORMAL_MAP", "OCCLUSION", "METAL_ROUGH", "SHINY"),
    ("OWN_UV",),
    ("UNLIT",),
)
CLEAR: dict[str, Any] = {}
STORM: dict[str, Any] = {
    "air": True,
    "ground": ("GROUND_WETNESS", "GROUND_SNOW", "GROUND_LEAVES"),
    "wind": True,
}


def fits(features: set[str]) -> bool:
    """Return whether materials have these features together: unlit ones have no finish."""
    return not ("UNLIT" in features and features & {"FINISHED", "SHINY", "EMISSIVE"})


@pytest.mark.parametrize("shading", [0, 1, 2])
def test_every_pair_of_features_compiles(shading: int) -> None:
    needs_gl()
    ctx = open_context()
    programs = Programs(ctx)
    kinds = (
        ("STATIC",),
        ("STATIC", "LIGHTMAP"),
        ("INSTANCED", "MORPH=3"),
        ("SKINNED", "UNTRACKED", "MORPH=3"),
    )
    outputs = int(PassOutput.COLOUR | PassOutput.FLOW | PassOutput.NORMAL)
    count = 0
    for index, pair in enumerate(combinations(FEATURES, 2)):
        features = {name for feature in pair for name in feature}
        if not fits(features):
            continue
        vertices, *more = kinds[index % len(kinds)]
        for weather in (CLEAR, STORM):
            options = PassOptions(
                shading, outputs, shadow=shading > 0, lamps=True, probed=True, **weather
            )
            programs.of(options, vertices, (*sorted(features), *more))
            count += 1
        programs.of(PassOptions(0, 0), vertices, (*sorted(features), *more))
    ctx.release()
    assert count > 80
