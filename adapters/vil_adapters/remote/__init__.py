"""Another bridge as a source: the actors that it publishes."""
