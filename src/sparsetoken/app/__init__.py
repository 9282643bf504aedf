"""The explorer: the theory in the browser, moving under your fingers (extra `app`)."""
