"""Every claim of the paper, theory against simulation, with a verdict by a stated rule."""
