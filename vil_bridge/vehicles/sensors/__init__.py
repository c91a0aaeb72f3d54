"""Sensors of simulated vehicles: what they measure, when, how late and how wrongly."""
