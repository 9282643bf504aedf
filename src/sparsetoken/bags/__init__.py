"""With data: estimators, pilots, files."""
