"""`python -m sparsetoken` is the command line."""

import sys

from sparsetoken.cli import main

if __name__ == "__main__":
    sys.exit(main())
