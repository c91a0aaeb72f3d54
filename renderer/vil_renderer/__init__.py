"""Renderers: clients and servers of the renderer protocols, and the embedded renderer."""
