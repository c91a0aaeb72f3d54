"""Foxglove live: the world and the cameras over its WebSocket protocol."""
