"""Outward faces of the bridge other than the picture stream."""
