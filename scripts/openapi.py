"""Write the description of the REST interface: ``python scripts/openapi.py [FILE]``.

The default file is docs/reference/openapi.json.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from vil_bridge import registry
from vil_bridge.config.load import load
from vil_bridge.daemon.bridge import Bridge

_EMPTY = """
version: 1
stream: {bind: "tcp://127.0.0.1:0"}
http: {port: 0}
"""


def description() -> dict[str, Any]:
    """Return the interface of an empty bridge, which every bridge has; its version is the API's."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bridge.yaml"
        path.write_text(_EMPTY)
        bridge = Bridge(load(path, env={}, resolve=registry.resolve))
    try:
        return bridge.build_web().openapi()
    finally:
        bridge.http.stop()


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "file",
        nargs="?",
        type=Path,
        default=Path(__file__).parent.parent / "docs" / "reference" / "openapi.json",
    )
    file: Path = parser.parse_args().file
    file.write_text(json.dumps(description(), indent=1) + "\n")


if __name__ == "__main__":
    main()
