"""Warnings of virtual walls, and of actors of two rooms that come near in the shared world."""
