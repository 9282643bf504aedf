"""Real architectures, trained (torch)."""
