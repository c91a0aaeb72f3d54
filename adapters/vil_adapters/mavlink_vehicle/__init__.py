"""A flying or simulated vehicle that tells its own pose over MAVLink."""
