"""Simulator interfaces of autopilot programs, as flown: see ``reference/autopilots.md`` of the design."""
