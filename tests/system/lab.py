"""A real systemd as PID 1 on a sealed root, driven from outside; needs root.

    with Lab(directory) as lab:
        lab.unit("x.service", text)
        lab.ctl("start", "x")

Nothing is booted before a write probe has proven the seal, and no pid is signalled that was not checked.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Self, TypeVar

SEAL = Path(__file__).with_name("seal.sh")
SYSTEMD = Path("/lib/systemd/systemd")
PROJECT = Path(__file__).parents[2]
HIDDEN = ("/root", "/home", "/tmp", "/var", "/run", "/mnt")
"""What a service in the lab cannot see: the seal has its own there, or the unit keeps out of homes."""
PATIENCE = 30.0
TARGETS = (
    *("sysinit", "basic", "shutdown", "umount", "local-fs", "multi-user", "network", "network-online"),
    *("default", "exit", "sockets", "timers", "paths", "slices"),
)
BOOT = f"""\
#!/bin/bash
mount -t tmpfs -o mode=755,size=1m tmpfs /etc/systemd/system
export SYSTEMD_UNIT_PATH=/etc/systemd/system:/run/share/units
export SYSTEMD_GENERATOR_PATH=/run/share/none SYSTEMD_ENVIRONMENT_GENERATOR_PATH=/run/share/none
exec {SYSTEMD} --system --unit=default.target --log-target=console --show-status=no >/run/share/boot.log 2>&1
"""
Value = TypeVar("Value")


def missing() -> str | None:
    """Why there can be no lab here, if so."""
    if os.geteuid() != 0:
        return "a sealed systemd needs root"
    if not SYSTEMD.exists():
        return "systemd is not installed"
    if hidden := [place for place in HIDDEN if PROJECT.is_relative_to(place)]:
        return f"a sealed systemd does not see {hidden[0]}, where this clone is; clone it to /srv, say"
    absent = [
        name for name in ("unshare", "nsenter", "setpriv", "ip", "pivot_root") if not shutil.which(name)
    ]
    return f"not installed: {', '.join(absent)}" if absent else None


def until(look: Callable[[], Value], *, seconds: float = PATIENCE) -> Value:
    """What `look` returns as soon as it is true; it is asked again and again, and not for ever."""
    deadline = time.monotonic() + seconds
    while not (value := look()):
        assert time.monotonic() < deadline, f"still {value!r} after {seconds} s"
        time.sleep(0.02)
    return value


class Lab:
    """One boot of systemd."""

    def __init__(self, share: Path) -> None:
        self.share, self.units = share, share / "units"
        self._seal: subprocess.Popen[bytes] | None = None
        self._init = 0

    def __enter__(self) -> Self:
        self.units.mkdir(parents=True)
        self.share.chmod(0o755)
        for target in TARGETS:
            stub = f"[Unit]\nDescription=Stub of {target}\nDefaultDependencies=no\n"
            (self.units / f"{target}.target").write_text(stub)
        boot = self.share / "boot.sh"
        boot.write_text(BOOT)
        boot.chmod(0o755)
        prove_the_seal(self.share)
        self._seal = subprocess.Popen([SEAL, "/run/share/boot.sh"], env=_environment(self.share))
        try:
            self._init = until(self._find_init)
            until(self._is_up)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        assert self._seal is not None
        if self._init > 1:
            with suppress(ProcessLookupError):
                os.kill(self._init, signal.SIGKILL)  # the end of its whole pid namespace
        elif self._seal.poll() is None:
            self._seal.terminate()
        self._seal.wait(PATIENCE)

    # What is done in there.

    def run(self, *command: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
        """Run a command inside, as root."""
        done = subprocess.run(
            ["nsenter", "-t", str(self._init), "-m", "-p", "-u", "-i", "-n", "-C", "--", *command],
            capture_output=True,
            text=True,
            timeout=PATIENCE * 2,
            check=False,
        )
        assert not check or done.returncode == 0, f"{command}: {done.stderr or done.stdout}\n{self.log()}"
        return done

    def ctl(self, *words: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
        return self.run("systemctl", *words, check=check)

    def unit(self, name: str, text: str) -> None:
        """Give systemd a unit."""
        path = self.units / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        self.ctl("daemon-reload")

    def show(self, unit: str, name: str) -> str:
        """One property of a unit."""
        return self.ctl("show", unit, "--property", name, "--value").stdout.strip()

    def processes(self, unit: str) -> list[int]:
        """Everything alive in the unit's cgroup, by the pids that the lab knows."""
        listed = self.run("cat", f"/sys/fs/cgroup/system.slice/{unit}/cgroup.procs", check=False)
        return [int(pid) for pid in listed.stdout.split()]

    def kill(self, name: str, pid: int) -> None:
        """Signal a process inside."""
        assert pid > 1, f"refusing to signal pid {pid}"
        self.run("kill", f"-{name}", str(pid))

    def log(self) -> str:
        """What systemd and its services have said."""
        return "\n".join(path.read_text(errors="replace") for path in sorted(self.share.glob("*.log")))

    # How it comes up.

    def _is_up(self) -> bool:
        return self.ctl("is-system-running", check=False).stdout.strip() in ("running", "degraded")

    def _find_init(self) -> int:
        assert self._seal is not None
        assert self._seal.poll() is None, "the seal has ended"
        return next((pid for pid in _below(self._seal.pid) if _is_sealed_init(pid)), 0)


def prove_the_seal(share: Path) -> None:
    """Try to write outside the share from inside; fails unless every try does."""
    probe = share / "probe.sh"
    places = ("/usr", "/work", "/root", "/home", "/boot", "/opt", "/tmp", "/var", "/etc", "/srv")
    name = f"mcp-supervisor-probe-{os.getpid()}"
    probe.write_text(
        f"#!/bin/bash\nfor place in {' '.join(places)}; do echo > $place/{name}; done 2>/dev/null; exit 0\n"
    )
    probe.chmod(0o755)
    subprocess.run([SEAL, "/run/share/probe.sh"], env=_environment(share), check=True, timeout=PATIENCE)
    leaks = [place for place in places if Path(place, name).exists()]
    for place in leaks:
        Path(place, name).unlink()
    assert not leaks, f"the seal leaks: {leaks} can be written; not booting systemd"


def _environment(share: Path) -> dict[str, str]:
    return {**os.environ, "SHARE": str(share), "PREFIX": sys.base_prefix}


def _below(root: int) -> Iterator[int]:
    todo = [root]
    while todo:
        pid = todo.pop()
        with suppress(OSError):
            children = [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
            todo += children
            yield from children


def _is_sealed_init(pid: int) -> bool:
    """Whether it is a systemd that is PID 1 of a namespace that is not ours."""
    with suppress(OSError):
        numbers = next(
            line.split()[1:]
            for line in Path(f"/proc/{pid}/status").read_text().splitlines()
            if line.startswith("NSpid:")
        )
        name = Path(f"/proc/{pid}/comm").read_text().strip()
        return pid > 1 and len(numbers) > 1 and numbers[-1] == "1" and name == "systemd"
    return False
