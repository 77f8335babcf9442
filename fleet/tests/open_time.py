"""`open` and one struct in a running interpreter against the library's own time. Prints both and their ratio.

    python open_time.py OPEN_ONE [FILE STRUCT]      OPEN_ONE: the built example open_one of fleet/calls

Both are optimised builds; the two take turns, so that what else runs here meets both.
"""

import statistics
import subprocess
import sys
import time

import tussle

TIMES, TURNS = 20, 10


def python(file, name):
    out = []
    for _ in range(TIMES):
        start = time.perf_counter()
        size = tussle.open(file)[name].size_bytes
        out.append((1000 * (time.perf_counter() - start), size))
    return out


def library(program, file, name):
    text = subprocess.check_output([program, file, name, str(TIMES)], text=True)
    return [(float(ms), int(size)) for ms, size in (line.split() for line in text.splitlines())]


def main():
    program, file, name = (sys.argv[1:] + ["/sys/kernel/btf/vmlinux", "mm_struct"])[:3]
    ours, theirs = [], []
    for _ in range(TURNS):
        theirs += library(program, file, name)
        ours += python(file, name)
    assert {s for _, s in ours} == {s for _, s in theirs}
    a, b = (statistics.median(ms for ms, _ in x) for x in (ours, theirs))
    print(f"{name} of {file}: {a:.2f} ms in Python, {b:.2f} ms in the library, {a / b:.2f} times")


if __name__ == "__main__":
    main()
