"""The inertial sensors of Betaflight, INAV and their kin, asked by MSP."""
