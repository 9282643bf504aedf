"""Convex and joint fits on arrays."""
