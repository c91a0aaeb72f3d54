"""OpenAPI document: the role that each operation needs, and an example of every body."""

from __future__ import annotations

from typing import Any, Final

from fastapi import FastAPI

from vil_bridge.runtime.access_tokens import Role
from vil_bridge.web.auth.access import cookie_name, needed_role

EXAMPLES: Final[dict[str, Any]] = {
    "put_lighting": {
        "time_of_day_h": 18.5,
        "lamps": {"Lamp1": {"power": 0.2, "colour": [1.0, 0.8, 0.6]}},
    },
    "patch_lighting": {"lamps": {"Lamp1": {"power": 0.0}}, "weather": {"fog": 0.3}},
    "patch_simulation": {"paused": False, "speed": 2.0},
    "step_simulation": {"seconds": 0.5},
    "make_login_link": {"role": "view"},
    "command_vehicle": {"action": "fly", "mode": "velocity", "values": [1.0, 0.0, 0.0, 0.0]},
    "disturb_vehicle": {"lost_shares": [0.0, 0.0, 0.3, 0.0]},
    "put_mount": {"p_m": [0.12, 0.0, 0.03], "q_xyzw": [0.0, 0.0, 0.0, 1.0]},
    "put_faults": {"faults": "loss=5%,delay=20ms±5"},
    "put_prop": {"p_m": [1.0, 0.0, 0.5], "size_m": [0.4, 0.4, 1.0]},
}
"""Bodies by operation, where the route has none."""

_PARAMETERS: Final[dict[tuple[str, str], Any]] = {
    ("sources", "name"): "mocap",
    ("actors", "name"): "drone",
    ("vehicles", "name"): "drone",
    ("renderers", "name"): "hall",
    ("outputs", "name"): "video",
    ("props", "name"): "box",
}
"""Values of a parameter by its section, where the route has none; a camera's name elsewhere."""

_SCHEMES: Final = {
    "token": {
        "type": "http",
        "scheme": "bearer",
        "description": "A token of `http.token_file`. A bridge without that file asks for none.",
    },
    "login": {
        "type": "apiKey",
        "in": "cookie",
        "name": cookie_name({"server": ("", 8080)}),
        "description": "The session of a browser that opened a login link; the name ends with the "
        "bridge's port.",
    },
}


def describe(app: FastAPI) -> None:
    """Add roles and examples to the application's OpenAPI document."""
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            described = plain()
            described["components"]["securitySchemes"] = _SCHEMES
            for path, methods in described["paths"].items():
                for method, operation in methods.items():
                    _describe(path, method.upper(), operation)
        return app.openapi_schema or {}

    app.openapi = openapi  # type: ignore[method-assign]


def _describe(path: str, method: str, operation: dict[str, Any]) -> None:
    role = needed_role("http", method, path)
    operation["security"] = (
        [] if role is Role.NONE else [{scheme: [str(role)]} for scheme in _SCHEMES]
    )
    for parameter in operation.get("parameters", ()):
        if parameter["in"] == "path":
            section = path.split("/")[3]
            usual = _PARAMETERS.get((section, parameter["name"]), "front")
            (parameter["example"],) = parameter["schema"].pop("examples", (usual,))
    if "requestBody" in operation:
        body = operation["requestBody"]["content"]["application/json"]
        if "example" not in body:
            body["example"] = EXAMPLES[operation["operationId"]]
