"""Capabilities of a running bridge besides moving poses and pictures."""
