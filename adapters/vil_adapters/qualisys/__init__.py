"""Qualisys Track Manager over its real-time protocol."""
