"""A flying or simulated vehicle that sends its own pose over MAVLink."""
