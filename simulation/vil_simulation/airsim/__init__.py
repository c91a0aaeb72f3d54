"""AirSim's RPC interface: unmodified AirSim programs read and fly the vehicles of the bridge."""
