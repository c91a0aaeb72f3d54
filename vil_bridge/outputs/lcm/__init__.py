"""Pictures, poses and inertial samples over LCM."""
