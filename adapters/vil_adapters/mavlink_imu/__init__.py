"""An autopilot or inertial sensor that streams MAVLink over a serial line."""
