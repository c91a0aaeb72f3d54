"""Stand-ins of the autopilots PX4, ArduPilot and Betaflight, strict about the wire between them and
their physics.

Each is a process of its own, ``vil-bridge lab autopilot px4``: it ends at the
first violation, with one sentence. What the autopilots do on the wire, they do; how they estimate
and control is our own, and modest.
"""
