"""Simulator interfaces of autopilot programs, as flown.

See ``reference/autopilots.md`` of the design.
"""
