"""Bags on disk: one file for each layout."""
