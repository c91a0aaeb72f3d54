"""Simulated vehicles, autopilots in the loop, AirSim's interface, races, planning and data sets."""
