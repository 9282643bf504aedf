"""What is possible at all."""
