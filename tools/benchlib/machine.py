"""What a result says of the machine that it comes from."""
from __future__ import annotations

import os
import platform
from pathlib import Path


def describe(output: Path) -> dict:
    """The machine and its state now, with the file system that will hold `output`."""
    return {"cpu": cpu_model(), "cores": usable_cores(), "architecture": platform.machine(),
            "kernel": f"{platform.system()} {platform.release()}", "file_system": file_system(output),
            "memory_bytes": memory("MemTotal"), "free_memory_bytes": memory("MemAvailable"),
            "load_average": os.getloadavg(), "python": platform.python_version()}


def usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpu_model() -> str:
    return proc_value("/proc/cpuinfo", "model name") or platform.processor() or platform.machine()


def memory(field: str) -> int | None:
    value = proc_value("/proc/meminfo", field)
    return int(value.split()[0]) * 1024 if value else None


def proc_value(file: str, field: str) -> str | None:
    """The first value of a field in a file of `field: value` lines."""
    try:
        with open(file) as lines:
            return next((line.split(":", 1)[1].strip() for line in lines if line.split(":")[0].strip() == field), None)
    except OSError:
        return None


def file_system(path: Path) -> str | None:
    """The type of the file system at the longest mount point above `path`."""
    path, longest, found = path.resolve(), "", None
    try:
        with open("/proc/self/mounts") as mounts:
            for line in mounts:
                _device, point, kind = line.split()[:3]
                point = point.replace("\\040", " ")
                if path.is_relative_to(point) and len(point) >= len(longest):
                    longest, found = point, kind
    except OSError:
        pass
    return found
