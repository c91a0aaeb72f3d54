"""The world's actors as trackers of a VRPN server."""
