"""Baked light: what the static surfaces of a scene get from the sky, the sun and lamps, over all
bounces.
"""
