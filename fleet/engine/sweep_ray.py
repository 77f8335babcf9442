"""Ranges of a sweep as tasks of Ray. Started by `tussle-fleet sweep --engine ray`.

Request: {"program", "plan", "to", "jobs": [a, b], "batch": n or null, "address", "cpus", "quiet"}.
Answer: {"status": worst exit status, "tasks": n, "sums": what all parts did} or {"error": ".."}.
The folder `to` and the program must be at the same place on every machine of the cluster. Started isolated
(`python -I`); Ray gives its workers the current folder to import from, so that it is none of the caller's.
"""

import ctypes
import json
import os
import site
import subprocess
import sys
import time

# What `pip install --user` installed is left out by `-I`, and nobody else's.
if sys.flags.isolated and sys.prefix == sys.base_prefix:
    site.addsitedir(site.getusersitepackages())

TRIES = 4
# Where many others run, its parts need longer to find each other than Ray gives them.
PATIENCE = {"RAY_agent_register_timeout_ms": "120000", "RAY_worker_register_timeout_seconds": "240"}
# A part costs as much as hundreds of quick points (docs/validation/fleet.md); the end of a sweep waits for the last.
POINTS_MAX, PARTS_PER_CPU = 5_000, 8
PR_SET_PDEATHSIG, SIGKILL = 1, 9


def connect(ray, ask):
    """To the cluster that was named, or to one started here: Ray gives it 30 s, which can be too short once."""
    for name, value in PATIENCE.items():
        os.environ.setdefault(name, value)
    started = {"address": ask["address"]} if ask["address"] else {"num_cpus": ask["cpus"], "include_dashboard": False}
    for left in range(0 if ask["address"] else TRIES - 1, -1, -1):
        try:
            ray.init(log_to_driver=False, logging_level="ERROR", **{k: v for k, v in started.items() if v is not None})
            return None
        except Exception as e:
            ray.shutdown()
            if not left:
                return f"Ray does not start: {' '.join(str(e).split())[:400]}"


def ranges(ask, cpus):
    """The jobs in parts of so many as were asked for, else a few parts for every CPU."""
    a, b = ask["jobs"]
    fair = -(-(b - a) // max(1, int(PARTS_PER_CPU * cpus)))
    batch = ask["batch"] or max(1, min(POINTS_MAX, fair))
    return [(i, min(i + batch, b)) for i in range(a, b, batch)]


def main():
    # Who is killed takes what it started along: nobody writes answers of a sweep that was ended.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGKILL)
    ask = json.load(sys.stdin)
    # All paths of a request are whole.
    os.chdir("/")
    try:
        import ray
    except ImportError:
        json.dump({"error": "needs Ray: pip install ray, or name another Python with TUSSLE_PYTHON"}, sys.stdout)
        return
    error = connect(ray, ask)
    if error:
        json.dump({"error": error}, sys.stdout)
        return

    # A worker that is killed takes its program with it; Ray starts the task again, which finds what is done.
    @ray.remote(num_cpus=1, max_retries=TRIES - 1)
    def part(a, b):
        words = [ask["program"], "sweep", ask["plan"], "--to", ask["to"], "--jobs", f"{a}..{b}", "--threads", "1", "-q",
                 "--sums"]  # fmt: skip
        along = lambda: ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGKILL)
        for _ in range(TRIES):
            done = subprocess.run(words, capture_output=True, text=True, preexec_fn=along)
            if done.returncode >= 0 and (done.returncode != 2 or not done.stderr):
                return done.returncode, "", json.loads(done.stdout)
        return 2, done.stderr.strip() or f"ended by signal {-done.returncode}", {}

    waiting = [part.remote(a, b) for a, b in ranges(ask, ray.cluster_resources().get("CPU", 1))]
    total, worst, errors, start, said = len(waiting), 0, [], time.monotonic(), 0.0
    sums = {"done": 0, "failed": 0, "cpu_s": 0.0, "points_s": 0.0}
    while waiting:
        ready, waiting = ray.wait(waiting, num_returns=1, timeout=1.0)
        for r in ready:
            try:
                status, error, did = ray.get(r)
            except Exception as e:
                status, error, did = 2, str(e).splitlines()[0], {}
            worst = max(worst, status)
            for name in sums:
                sums[name] += did.get(name, 0)
            errors += [error] if error else []
        now, done = time.monotonic(), total - len(waiting)
        if ready and done and not ask["quiet"] and now - said > 5:
            said = now
            print(f"tussle: {done} of {total} parts, {(now - start) / done * len(waiting):.0f} s left", file=sys.stderr)
    ray.shutdown()
    if errors:
        json.dump({"error": f"{len(errors)} parts failed: {errors[0]}"}, sys.stdout)
    else:
        json.dump({"status": worst, "tasks": total, "sums": sums}, sys.stdout)


if __name__ == "__main__":
    main()
