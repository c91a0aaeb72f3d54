"""Questions to a scene that a process of its own answers: client, messages and shared memory.

No OpenGL.
"""
