"""`python -m reid_torchmetrics`: the command."""

import sys

from reid_torchmetrics.command import main

if __name__ == "__main__":
    sys.exit(main())
