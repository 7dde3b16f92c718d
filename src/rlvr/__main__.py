"""`python -m rlvr`: the command line."""

import os
import signal
import sys

if __name__ == "__main__":
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))  # `main` will do better
    from rlvr.cli import main

    sys.exit(main())
