"""VRPN: tracker codec, asyncio source and a server that speaks the same bytes."""
