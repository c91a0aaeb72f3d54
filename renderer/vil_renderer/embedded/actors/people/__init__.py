"""Humans made by recipe: builds, meshes, clothes."""
