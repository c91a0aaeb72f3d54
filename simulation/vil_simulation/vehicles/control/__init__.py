"""From trajectories to commands: differential flatness and geometric tracking."""
