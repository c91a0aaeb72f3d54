"""The world's actors as rigid bodies and skeletons of a NatNet server."""
