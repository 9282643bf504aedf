"""What every room may use; knows no room."""
