"""Parts of a bridge that its configuration describes, for running and for replaying."""
