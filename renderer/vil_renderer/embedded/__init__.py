"""The embedded renderer: pictures of a procedural hall, drawn by OpenGL without a window.

``EmbeddedRenderer`` draws in the caller's process; ``server`` is the process behind the wire protocol.
"""

from vil_renderer.embedded.renderer import EmbeddedRenderer

__all__ = ["EmbeddedRenderer"]
