"""`posix_spawn` of the C library, for threads that want to start a process and hold nobody up.

A new process shares its parent's memory until it executes its program, and its parent's thread waits for
that, for milliseconds where the processors are busy. All that Python has for starting processes keeps the
interpreter's lock meanwhile, and so stops every other thread. A call through ctypes does not.
"""

import ctypes
import functools
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

_SETSIGDEF, _SETSIGMASK, _SETSID = 0x04, 0x08, 0x80
"""Flags of `posix_spawnattr_setflags`, the same in glibc and musl."""
_OPAQUE = 1024
"""Bytes for a structure of the C library, of which none has half as many."""
_FIRST_CLOSED = 3

_library: Any = ctypes.CDLL(None)


def available() -> bool:
    """Whether the C library can do all that is needed: glibc from 2.34 on."""
    needed = ("posix_spawn_file_actions_addchdir_np", "posix_spawn_file_actions_addclosefrom_np")
    return all(hasattr(_library, name) for name in needed)


def start(argv: Sequence[str], env: Mapping[str, str], streams: tuple[int, int, int], cwd: str | None) -> int:
    """Start a program in a session of its own with these three streams and no other file; returns its pid.

    `argv[0]` is the path of the program. What Python ignores, SIGPIPE first of all, is heeded again.
    No string may hold a NUL character, and no stream may be one of the first three.

    Raises:
        OSError: the system refuses.
    """
    words = _strings(argv)
    variables = _strings([f"{name}={value}" for name, value in env.items()])
    pid = ctypes.c_int()
    with _Opaque("posix_spawn_file_actions") as actions, _Opaque("posix_spawnattr") as attributes:
        for target, stream in enumerate(streams):
            actions.add("adddup2", stream, target)
        if cwd is not None:
            actions.add("addchdir_np", os.fsencode(cwd))
        actions.add("addclosefrom_np", _FIRST_CLOSED)
        attributes.add("setflags", ctypes.c_short(_SETSIGDEF | _SETSIGMASK | _SETSID))
        attributes.add("setsigdefault", _signals(signal.SIGPIPE, signal.SIGXFSZ))
        attributes.add("setsigmask", _signals())
        _checked(
            _library.posix_spawn(
                ctypes.byref(pid), words[0], actions.buffer, attributes.buffer, words, variables
            )
        )
    return pid.value


class _Opaque:
    """A structure that only the C library looks into, from its making to its end."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self.buffer = ctypes.create_string_buffer(_OPAQUE)

    def __enter__(self) -> Self:
        self.add("init")
        return self

    def __exit__(self, *_: object) -> None:
        self.add("destroy")

    def add(self, what: str, *arguments: object) -> None:
        function: Callable[..., int] = getattr(_library, f"{self._kind}_{what}")
        _checked(function(self.buffer, *arguments))


def _signals(*numbers: int) -> Any:
    wanted = ctypes.create_string_buffer(_OPAQUE)
    _library.sigemptyset(wanted)
    for number in numbers:
        _library.sigaddset(wanted, number)
    return wanted


def _strings(texts: Sequence[str]) -> Any:
    """An array of C strings, ended as the C library expects it."""
    return _array(len(texts) + 1)(*map(os.fsencode, texts))


@functools.lru_cache(maxsize=64)
def _array(size: int) -> Any:
    """The type of an array of so many strings, which is dear to make, and to get rid of."""
    return ctypes.c_char_p * size


def _checked(error: int) -> None:
    if error:
        raise OSError(error, os.strerror(error))
