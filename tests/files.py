"""Files that somebody else may be reading or writing at that moment."""

from pathlib import Path


def save(path: Path, text: str) -> None:
    """Save as most editors do: whoever reads sees the old file or the new one, and never half of one."""
    fresh = path.with_name(f"{path.name}.fresh")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)


def whole_lines(path: Path) -> list[bytes]:
    """The lines of a log so far, without one that is still being written."""
    written = path.read_bytes()
    return written[: written.rfind(b"\n") + 1].splitlines()
