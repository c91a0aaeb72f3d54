"""Planned flights: simulated vehicles fly them, pilots of real ones see them."""
