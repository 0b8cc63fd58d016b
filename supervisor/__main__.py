"""`python -m supervisor` is `mcp-supervisor`."""

import sys


def entry() -> None:
    """Run as a program, which Ctrl-C ends without a word, also while it is being loaded."""
    try:
        from supervisor import cli

        cli.entry()
    except KeyboardInterrupt:
        sys.exit(130)  # as a shell reports it


if __name__ == "__main__":
    entry()
