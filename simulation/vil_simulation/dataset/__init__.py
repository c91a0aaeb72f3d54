"""Work without a clock.

Data sets rendered from trajectories, and recordings run through the pipeline again.
"""
