"""The OpenGL side of the embedded renderer: everything that needs a context."""
