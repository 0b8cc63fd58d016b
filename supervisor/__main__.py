"""`python -m supervisor` is `mcp-supervisor`.

Nothing is loaded at the top: Ctrl-C would be answered with a traceback there, and the daemon holds back its
signals before it loads anything else.
"""

import sys


def entry() -> None:
    """Run as a program, which Ctrl-C ends without a word, also while it is being loaded."""
    try:
        if is_daemon(sys.argv[1:]):
            from supervisor.heeded import hold_back

            hold_back()
        from supervisor import cli

        cli.entry()
    except KeyboardInterrupt:
        sys.exit(130)  # as a shell reports it


def is_daemon(words: list[str]) -> bool:
    """Whether the verb is `run`, as the parser will find it."""
    value = False
    for word in words:
        if value:
            value = False
        elif word == "--socket":
            value = True
        elif not word.startswith("-"):
            return word == "run"
    return False


if __name__ == "__main__":
    entry()
