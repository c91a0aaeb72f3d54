"""The command line: one module per verb; what a verb needs is imported when it runs."""
