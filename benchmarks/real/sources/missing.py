"""What is raised where a source's package is not there."""


class NotInstalled(RuntimeError):
    """A source cannot be loaded before its package is installed."""
