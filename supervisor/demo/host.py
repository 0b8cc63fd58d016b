"""A tool about the machine: how much of it there is, and how much is free. Linux only, from /proc."""

import os

from supervisor.demo.tool import Arguments, Control, Output


def host_overview(_arguments: Arguments, _: Control) -> Output:
    from pathlib import Path

    proc, system, disk = Path("/proc"), os.uname(), os.statvfs("/")
    memory = _memory((proc / "meminfo").read_text())
    load = [float(number) for number in (proc / "loadavg").read_text().split()[:3]]
    return {
        "hostname": system.nodename,
        "kernel": system.release,
        "uptime_seconds": int(float((proc / "uptime").read_text().split()[0])),
        "processors": len(os.sched_getaffinity(0)),
        "load": load,
        "memory": {"total_bytes": memory["MemTotal"], "available_bytes": memory["MemAvailable"]},
        "swap": {"total_bytes": memory["SwapTotal"], "available_bytes": memory["SwapFree"]},
        "disk": {
            "total_bytes": disk.f_blocks * disk.f_frsize,
            "available_bytes": disk.f_bavail * disk.f_frsize,
        },
    }


def _memory(meminfo: str) -> dict[str, int]:
    """Bytes by name, from lines such as `MemTotal:  16384 kB`."""
    fields = (line.split() for line in meminfo.splitlines())
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in fields}
