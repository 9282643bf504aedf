"""The independent witness: the same protocol, run at finite size."""
