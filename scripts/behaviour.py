#!/usr/bin/env python3
"""Do patches change what programs do? Random moves in sources of Debian, ten after one another, then the tree's own tests.

    scripts/behaviour.py [--batches N] [--moves N] [--seed N] [--work DIR] [PACKAGE..]
                                                        packages: memcached leveldb redis fmtlib abseil tinyproxy

Each batch begins with the package as it is. A file of the product is drawn, a struct that it defines and that the build has,
two of its members and a move; what `tussle fix` patches is applied, until N moves are. Then everything is built, and the
package's tests are run. A test that passed in every run without patches (--plain, 2) and fails, or is not run, is a change; it
is run once more to tell flaky ones. Moves and logs stay in DIR/PACKAGE. Exit status 1: a change.

TUSSLE: the binary (target/release/tussle). Servers listen on loopback only. Needs apt-get with network and dpkg-dev, make,
cmake, perl, tcl, libevent-dev, libgtest-dev, libgmock-dev, libbenchmark-dev.
"""
import argparse, json, os, pathlib, random, re, shlex, shutil, subprocess, sys, tempfile

HERE = pathlib.Path(__file__).resolve().parent.parent
TUSSLE = os.environ.get("TUSSLE", str(HERE / "target/release/tussle"))
FOREIGN = ("test", "bench", "fuzz", "example", "deps/", "third_party", "build-b/", "tools/")
CMAKE = "cmake -S . -B build-b -DCMAKE_BUILD_TYPE=Debug"
GTEST = [(r"^\[ +(OK|FAILED) +\] (\S+) \(", 2), (r"^exit (\d+) (\S+)$", 2)]
# How each is built, the programs whose types are drawn from, how it is tested, what its results look like, more options of fix.
PACKAGES = {
    "memcached": dict(
        build="[ -e Makefile ] || ./configure -q --disable-docs CFLAGS='-O1 -g -Wno-error';"
        " make -j2 memcached memcached-debug sizes testapp timedrun",
        programs=["memcached"],
        tests="./testapp; ls t/*.t | grep -vE 'whitespace|line-lengths|lru-crawler.t|extstore|getset.t|chunked-items|binary.t"
        "|maxconns|idle-timeout|slabs-reassign2|chunked-extstore|watcher|restart|proxy'"
        " | xargs -P 3 -I{} sh -c 'timeout 120 perl -It/lib {} >{}.log 2>&1; echo \"exit $? {}\"; sed \"s,^,{} ,\" {}.log'",
        results=[(r"^(ok|not ok) \d+ - (.*)$", 2), (r"^exit (\d+) (t/\S+)$", 2), (r"^(?:t/\S+) (ok|not ok) (\d+) .*$", 0)],
    ),
    "tinyproxy": dict(
        build="[ -e Makefile ] || ./configure -q CFLAGS='-O1 -g'; make -j2",
        programs=["src/tinyproxy"],
        tests="make test",
        results=[(r"^(?=.*\.\.\. ?(\w+))([a-z][^.]*)\.\.\.", 2)],
    ),
    "leveldb": dict(
        build=f"[ -e build-b ] || {CMAKE} -DLEVELDB_BUILD_BENCHMARKS=OFF -DCMAKE_CXX_STANDARD=17; make -C build-b -j2",
        programs=["build-b/db_test", "build-b/leveldb_tests", "build-b/leveldbutil"],
        tests="for t in build-b/*_test build-b/leveldb_tests; do [ ! -x $t ] || case $t in *issue178*) ;; *)"
        " timeout 600 ./$t; echo \"exit $? $t\";; esac; done",
        results=GTEST,
    ),
    "redis": dict(
        build="make -C src -j2 MALLOC=libc OPTIMIZATION=-O1 USE_SYSTEMD=no BUILD_TLS=no redis-server redis-cli redis-benchmark",
        programs=["src/redis-server", "src/redis-cli"],
        tests="./runtest --clients 2 --config bind 127.0.0.1 --tags '-slow -needs:debug-reload' --single unit/type/list"
        " --single unit/type/hash --single unit/type/zset --single unit/type/set --single unit/type/stream --single unit/expire"
        " --single unit/multi --single unit/pubsub --single unit/scripting --single unit/protocol --single unit/querybuf"
        " --single unit/lazyfree --single unit/dump --single unit/sort --single unit/scan --single unit/acl </dev/null",
        results=[(r"^\[(ok)\]: (.*) \(\d+ ms\)$", 2), (r"^\[(err|exception|TIMEOUT)\]: (.*?)(?: in tests.*)?$", 2)],
    ),
    "fmtlib": dict(
        build=f"[ -e build-b ] || {CMAKE} -DFMT_DOC=OFF -DFMT_FUZZ=OFF -DCMAKE_CXX_FLAGS='-g1 -O0';"
        " make -C build-b -j2 args-test assert-test color-test core-test os-test ostream-test printf-test scan-test std-test"
        " xchar-test format-impl-test format-test",
        programs=["build-b/bin/core-test", "build-b/bin/scan-test", "build-b/bin/args-test"],
        tests="for t in build-b/bin/*-test; do timeout 300 ./$t; echo \"exit $? $t\"; done",
        results=GTEST,
        # Everything stands in public headers of a library that can be shared: whoever is built with them is built again.
        fix=["--abi-ok"],
    ),
    # Tests of a third of its parts, so that a batch is built in minutes. Public headers, as above.
    "abseil": dict(
        build=f"[ -e build-b ] || {CMAKE} -DABSL_BUILD_TESTING=ON -DABSL_USE_EXTERNAL_GOOGLETEST=ON -DABSL_FIND_GOOGLETEST=ON"
        " -DCMAKE_CXX_STANDARD=17 -DCMAKE_CXX_FLAGS='-g1 -O0'; make -C build-b -j2 " + " ".join(
            f"absl_{name}_test"
            for name in "spinlock low_level_alloc thread_identity cleanup hashtablez_sampler symbolize demangle flags_flag"
            " flags_parse flags_commandlineflag sample_recorder periodic_sampler mutex notification barrier blocking_counter"
            " graphcycles per_thread_sem time status statusor str_format_parser str_format_arg str_split charconv_bigint"
            " cord cord_rep_btree cord_ring cordz_info cordz_handle random_internal_pool_urbg random_internal_randen_engine"
            " inlined_vector flat_hash_map layout span any".split()
        ),
        programs=[f"build-b/bin/absl_{name}_test" for name in ("cord", "mutex", "flags_parse", "statusor", "time", "symbolize")],
        tests="for t in build-b/bin/*_test; do timeout 300 ./$t; echo \"exit $? $t\"; done",
        results=GTEST,
        fix=["--abi-ok"],
    ),
}


def shell(command, cwd, log, limit, path=None):
    env = dict(os.environ, LC_ALL="C.UTF-8")
    if path:
        env["PATH"] = f"{path}:{env['PATH']}"
    with open(log, "w") as out:
        words = ["timeout", str(limit), "sh", "-c", command]
        return subprocess.run(words, cwd=cwd, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=env).returncode


def git(tree, *words):
    who = ["-c", "user.name=tree", "-c", "user.email=tree@localhost", "-c", "core.autocrlf=false"]
    return subprocess.run(["git", *who, *words], cwd=tree, capture_output=True, text=True, check=True).stdout


class Tree:
    """One package in its folder."""

    def __init__(self, name, work):
        self.name, self.how, self.work = name, PACKAGES[name], work / name
        self.work.mkdir(parents=True, exist_ok=True)
        self.dir = self.unpacked()
        self.database = self.work / "compile_commands.json"
        if not (self.dir / ".git").exists():
            for words in (["init", "-q"], ["add", "-Af"], ["commit", "-qm", "as it is"]):
                git(self.dir, *words)
        if not self.database.exists():
            self.first_build()
        self.types = self.read_types()

    def unpacked(self):
        there = sorted(p for p in self.work.iterdir() if p.is_dir() and p.name.startswith(self.name))
        if not there:
            common = HERE / "examples/real/debian-source.sh"
            script = f". {shlex.quote(str(common))}; debian_source {self.name} {shlex.quote(str(self.work))}"
            found = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.split()
            shutil.move(found[-1], self.work)
            there = [self.work / pathlib.Path(found[-1]).name]
        return there[0].resolve()

    def first_build(self):
        """Builds by compilers that write down what they are asked."""
        tools, calls = self.work / "tools", self.work / "calls"
        for folder in (tools, calls):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        for name in ("cc", "gcc", "c++", "g++"):
            real = shutil.which(name)
            text = f'#!/bin/sh\nprintf "%s\\0" "$PWD" {real} "$@" >"{calls}/$$.$(date +%N)"\nexec {real} "$@"\n'
            (tools / name).write_text(text)
            (tools / name).chmod(0o755)
        if shell(self.how["build"], self.dir, self.work / "build.log", 3000, tools) != 0:
            raise SystemExit(f"{self.name}: does not build; see {self.work}/build.log")
        entries = []
        for call in calls.iterdir():
            folder, *words = call.read_text(errors="replace").rstrip("\0").split("\0")
            units = [w for w in words[1:] if re.search(r"\.(c|cc|cpp|cxx)$", w)]
            if len(units) == 1 and "-c" in words and "CMakeScratch" not in folder + units[0]:
                entries.append(dict(directory=folder, file=os.path.join(folder, units[0]), arguments=words))
        self.database.write_text(json.dumps(sorted(entries, key=lambda e: (e["file"], e["arguments"])), indent=0))

    def read_types(self):
        """Structs of the product by file: name, members, line."""
        out = {}
        for program in self.how["programs"]:
            if not (self.dir / program).exists():
                continue
            said = subprocess.run([TUSSLE, "layout", "-q", "--format", "json", program], cwd=self.dir, capture_output=True)
            for ty in json.loads(said.stdout)["types"]:
                path = os.path.normpath(ty["file"] or "")
                below = os.path.relpath(path, self.dir) if path.startswith(f"{self.dir}/") else ""
                names = [f["path"].split(".")[0].split("[")[0] for f in ty["fields"]]
                names = list(dict.fromkeys(n for n in names if re.fullmatch(r"[A-Za-z_]\w*", n)))
                product = below and not any(w in below.lower() for w in FOREIGN) and (self.dir / below).exists()
                if product and len(names) >= 3 and not re.search(r"[<(]", ty["name"] or "<") and "union" not in ty["name"]:
                    out.setdefault(below, {})[ty["name"], ty["line"]] = names
        return out

    def draw(self, chance):
        file = chance.choice(sorted(self.types))
        name, line = chance.choice(sorted(self.types[file]))
        a, b = chance.sample(self.types[file][name, line], 2)
        kinds = [f"align:{a}=64", f"{a}:first", f"swap:{a},{b}", f"swap:{a},{b}", f"{a}:before:{b}", "element=64", "pad=64"]
        return name, chance.choice(kinds + [f"{a}:after:{b}"] * 3)

    def fix(self, name, move):
        words = [TUSSLE, "fix", "-q", "--apply", "-C", name, "--move", move, "--dir", str(self.dir)]
        words += ["--compdb", str(self.database), *self.how.get("fix", [])]
        try:
            done = subprocess.run(words, cwd=self.work, capture_output=True, text=True, timeout=300)
        except subprocess.TimeoutExpired:
            return "cut after 300 s"
        return None if done.returncode == 0 else done.stderr.strip().split("\n")[0]

    def tested(self, log):
        """Runs the tests: name to whether all of its lines passed."""
        shell(self.how["tests"], self.dir, log, 1800)
        out = {}
        text = re.sub(r"\x1b\[[0-9;]*m", "", log.read_text(errors="replace"))
        for line in text.splitlines():
            for pattern, place in self.how["results"]:
                found = re.match(pattern, line)
                if found:
                    test = found.group(place) if place else " ".join(line.split()[::2][:2])
                    good = found.group(1) in ("ok", "OK", "0")
                    out[test] = out.get(test, True) and good
                    break
        return out

    def batch(self, number, moves, chance):
        """Applies moves; what was drawn, and how each ended."""
        git(self.dir, "checkout", "-q", "--", ".")
        drawn, good = [], 0
        with open(self.work / f"batch{number}.moves", "w") as out:
            while good < moves and len(drawn) < 15 * moves:
                name, move = self.draw(chance)
                why = self.fix(name, move)
                good += why is None
                drawn.append(why)
                print(f"{name} --move {move}: {why or 'patched'}", file=out, flush=True)
        (self.work / f"batch{number}.patch").write_text(git(self.dir, "diff"))
        return good, drawn


def changes(tree, number, steady):
    """Tests that passed without patches and do not now, seen twice."""
    bad = None
    for attempt in range(2):
        if shell(tree.how["build"], tree.dir, tree.work / f"batch{number}.build.log", 3000) != 0:
            return ["the build"], 0
        results = tree.tested(tree.work / f"batch{number}.tests{attempt}.log")
        now = {t for t in steady if not results.get(t, False)}
        bad = now if bad is None else bad & now
        if not bad:
            break
    return sorted(bad), len(results)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("batches", 5), ("moves", 10), ("seed", 1), ("plain", 2), ("first", 1)):
        options.add_argument(f"--{name}", type=int, default=default)
    options.add_argument("--work", type=pathlib.Path)
    options.add_argument("packages", nargs="*", default=[], metavar="PACKAGE")
    options = options.parse_args()
    work = (options.work or pathlib.Path(tempfile.mkdtemp())).resolve()
    print("| tree | batch | moves patched | drawn | refused | tests that pass without | changed |\n|---|---|---|---|---|---|---|")
    status = 0
    for name in options.packages or PACKAGES:
        tree = Tree(name, work)
        git(tree.dir, "checkout", "-q", "--", ".")
        shell(tree.how["build"], tree.dir, tree.work / "build.log", 3000)
        plain = [tree.tested(tree.work / f"plain{n}.log") for n in range(options.plain)]
        steady = {t for t in plain[0] if all(p.get(t) for p in plain)}
        if not steady:
            print(f"| {tree.dir.name} | none: no test passes without patches | | | | 0 | |", flush=True)
            status = 1
            continue
        for number in range(options.first, options.first + options.batches):
            good, drawn = tree.batch(number, options.moves, random.Random(f"{options.seed} {name} {number}"))
            bad, _ = changes(tree, number, steady)
            refused = sum(why is not None for why in drawn)
            print(f"| {tree.dir.name} | {number} | {good} | {len(drawn)} | {refused} | {len(steady)} | {len(bad)} |", flush=True)
            for test in bad[:20]:
                print(f"    changed: {test}", flush=True)
            status |= bool(bad)
    sys.exit(status)


if __name__ == "__main__":
    main()
