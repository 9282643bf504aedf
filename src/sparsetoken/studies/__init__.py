"""Many questions at once: cells, a store that survives anything, any executor."""
