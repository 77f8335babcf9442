"""What one task costs on Ray, and one part of a sweep without points. Prints what docs/validation/fleet.md says.

    python ray_overhead.py PLAN.toml FOLDER        TUSSLE_FLEET names the program
"""

import os
import subprocess
import sys
import time

import ray

PROGRAM = os.environ.get("TUSSLE_FLEET", "tussle-fleet")


def per_task(function, n):
    ray.get([function.remote() for _ in range(20)])
    start = time.monotonic()
    ray.get([function.remote() for _ in range(n)])
    return 1000 * (time.monotonic() - start) / n


def main():
    plan, to = sys.argv[1:]
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")

    @ray.remote(num_cpus=1)
    def nothing():
        return 0

    @ray.remote(num_cpus=1)
    def part():
        words = [PROGRAM, "sweep", plan, "--to", to, "--jobs", "0..0", "--threads", "1", "-q"]
        return subprocess.run(words, capture_output=True).returncode

    print(f"a task of Ray that does nothing: {per_task(nothing, 2000):.2f} ms of two CPUs")
    print(f"a part without points: {per_task(part, 100):.1f} ms of two CPUs")
    ray.shutdown()


if __name__ == "__main__":
    main()
