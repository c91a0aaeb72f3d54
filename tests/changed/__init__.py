"""Cases that a change can reach: `make test-changed`."""
