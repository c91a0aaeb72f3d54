"""Servers of foreign protocols, through which programs of other simulators use the bridge."""
