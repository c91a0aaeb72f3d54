"""What turns a trajectory into commands: differential flatness and geometric tracking."""
