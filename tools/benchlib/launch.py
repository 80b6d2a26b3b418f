"""Runs one command and prints its wall seconds, CPU seconds, peak resident bytes, the CPU seconds of others and its exit code.

A process of its own because a child's peak is never reported below that of the process that started it: this one is small.
"""
import os
import sys
import time


def machine_cpu_s():
    """CPU seconds that the machine has worked since it started, where it says so."""
    try:
        with open("/proc/stat") as stat:
            user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, stat.readline().split()[1:9])
    except OSError:
        return None
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


quiet = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
before = machine_cpu_s()
start = time.perf_counter()
pid = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=quiet)
_, status, usage = os.wait4(pid, 0)
wall = time.perf_counter() - start
cpu = usage.ru_utime + usage.ru_stime
peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
others = "unknown" if before is None else max(0.0, machine_cpu_s() - before - cpu)
print(wall, cpu, peak, others, os.waitstatus_to_exitcode(status))
