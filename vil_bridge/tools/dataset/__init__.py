"""Work without a clock: data sets rendered from trajectories, and recordings run through the pipeline again."""
