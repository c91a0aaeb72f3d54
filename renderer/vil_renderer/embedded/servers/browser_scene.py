"""Write the GLB of a shipped scene to stdout: ``python -m vil_renderer.embedded.servers.browser_scene NAME``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from vil_renderer.embedded.assets.gltf.write import write_glb
from vil_renderer.embedded.scenes import SCENES

__all__ = ["main"]


def main(arguments: Sequence[str]) -> int:
    """0 = written; 2 = no shipped scene has that name."""
    name = arguments[0] if arguments else ""
    if name not in SCENES:
        sys.stderr.write(f"no shipped scene is named {name!r}; known: {', '.join(sorted(SCENES))}\n")
        return 2
    sys.stdout.buffer.write(write_glb(SCENES[name]()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
