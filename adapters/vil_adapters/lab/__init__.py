"""The emulated lab.

Mocap servers, a serial IMU and bad networks, on real sockets and a real pty.
"""
