"""Source adapters: one folder per motion-capture system or sensor."""
