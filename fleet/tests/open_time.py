"""`open` and one struct in a running interpreter against the library's own time. Prints both and their ratio.

    python open_time.py OPEN_ONE [FILE STRUCT]      OPEN_ONE: the built example open_one of fleet/calls

Both are optimised builds; the two take turns, so that what else runs here meets both. The CPU time says what of the
wall time was waiting for others.
"""

import resource
import statistics
import subprocess
import sys
import time

import tussle

TIMES, TURNS = 20, 10


def cpu_ms(who):
    used = resource.getrusage(who)
    return 1000 * (used.ru_utime + used.ru_stime)


def python(file, name):
    """Milliseconds and size of each time, and milliseconds of CPU of all."""
    out, before = [], cpu_ms(resource.RUSAGE_SELF)
    for _ in range(TIMES):
        start = time.perf_counter()
        size = tussle.open(file)[name].size_bytes
        out.append((1000 * (time.perf_counter() - start), size))
    return out, cpu_ms(resource.RUSAGE_SELF) - before


def library(program, file, name, times=TIMES):
    before = cpu_ms(resource.RUSAGE_CHILDREN)
    text = subprocess.check_output([program, file, name, str(times)], text=True)
    rows = [(float(ms), int(size)) for ms, size in (line.split() for line in text.splitlines())]
    return rows, cpu_ms(resource.RUSAGE_CHILDREN) - before


def main():
    program, file, name = (sys.argv[1:] + ["/sys/kernel/btf/vmlinux", "mm_struct"])[:3]
    ours, theirs, cpu = [], [], [0, 0]
    for _ in range(TURNS):
        # What a program costs that opens nothing is none of the library's.
        for rows, runs in ((theirs, [library(program, file, name), library(program, file, name, 0)]),
                           (ours, [python(file, name)])):  # fmt: skip
            rows += runs[0][0]
            cpu[rows is theirs] += (runs[0][1] - sum(r[1] for r in runs[1:])) / TIMES / TURNS
    assert {s for _, s in ours} == {s for _, s in theirs}
    for what, pick in (("median", statistics.median), ("least", min)):
        a, b = (pick(ms for ms, _ in x) for x in (ours, theirs))
        print(f"{name} of {file}, {what}: {a:.2f} ms in Python, {b:.2f} ms in the library, {a / b:.2f} times")
    print(f"CPU: {cpu[0]:.2f} ms in Python, {cpu[1]:.2f} ms in the library, {cpu[0] / cpu[1]:.2f} times")


if __name__ == "__main__":
    main()
