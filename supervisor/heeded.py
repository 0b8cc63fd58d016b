"""The signals that the daemon heeds, and those of them that came before it could.

It owns which they are. Nothing is loaded here, so that they can be held back before anything else is.
"""

import signal

END = (signal.SIGTERM, signal.SIGINT)
HEEDED = (*END, signal.SIGHUP)


def hold_back() -> None:
    """Let them wait until somebody heeds them: they would end us, and leave what we started.

    Those that come when all is over have nothing more to ask for, so this is for good.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, HEEDED)


def asked_to_end() -> bool:
    """Whether one that waits asks for the end."""
    return not signal.sigpending().isdisjoint(END)
