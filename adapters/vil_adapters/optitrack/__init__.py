"""OptiTrack Motive: NatNet codec, asyncio source and an emulator that speaks the same bytes."""
