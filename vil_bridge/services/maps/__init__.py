"""Occupancy maps that grow from depth pictures while the bridge runs."""
