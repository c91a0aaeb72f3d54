"""JSON Schema of the configuration, for completion and checks in editors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from vil_bridge.config.base import PluginConfig
from vil_bridge.config.root import BridgeConfig


def json_schema(plugins: Mapping[str, Iterable[type[PluginConfig]]]) -> dict[str, Any]:
    """Return the schema of a whole file.

    Args:
        plugins: the models of every known plug-in by section ("sources", "renderers", "outputs").
    """
    models: list[type[BaseModel]] = [
        BridgeConfig,
        *(model for section in plugins.values() for model in section),
    ]
    refs, shared = models_json_schema(
        [(model, "validation") for model in models], title="VIL Bridge configuration"
    )
    definitions: dict[str, Any] = shared["$defs"]
    name_of = {model: refs[model, "validation"]["$ref"].rpartition("/")[2] for model in models}
    root = definitions.pop(name_of[BridgeConfig])
    for section, known in plugins.items():
        choices = [name_of[model] for model in known]
        for choice in choices:
            definitions[choice].setdefault("required", []).append("type")
        entry = {"oneOf": [{"$ref": f"#/$defs/{choice}"} for choice in choices]}
        schema = root["properties"][section]
        (keys,) = {"patternProperties", "additionalProperties"} & schema.keys()
        schema[keys] = dict.fromkeys(schema[keys], entry) if keys == "patternProperties" else entry
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **root,
        "title": shared["title"],
        "$defs": definitions,
    }
