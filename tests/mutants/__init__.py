"""Mutation tests: changed lines that the tests have to notice (docs/develop/mutants.md)."""
