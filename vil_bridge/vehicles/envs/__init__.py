"""Learning tasks as plain arrays, many vehicles at once; ``vil_bridge.learning`` makes gymnasium environments of them."""
