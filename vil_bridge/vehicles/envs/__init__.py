"""Vectorized learning tasks on plain arrays.

``vil_bridge.learning`` wraps them as gymnasium environments.
"""
