"""The FlightGoggles renderer protocol, both ends: the bridge's client and a renderer's server."""
