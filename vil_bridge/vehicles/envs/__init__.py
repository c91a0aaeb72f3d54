"""Learning tasks as plain arrays, many vehicles at once; ``vil_bridge.learn`` makes gymnasium environments of them."""
