"""The inertial sensor of an onboard computer that reads our pictures."""
