"""The Flightmare renderer protocol, both ends: the bridge's client and a renderer's server."""
