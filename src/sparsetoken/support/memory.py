"""How much memory there is."""

from __future__ import annotations

import math
import os


def machine_memory() -> float:
    """Bytes of this machine's memory; inf where that cannot be asked."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return math.inf
