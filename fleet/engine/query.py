"""Runs one query over a dataset with DuckDB or Spark. Reads a request as JSON on standard input, writes rows as JSON.

Started by `tussle-fleet`, which carries this file and the SQL inside, isolated (`python -I`): no module of the folder
that it is started in, or of PYTHONPATH, is imported.
Request: {"engine", "dataset", "views", "sql", "parameters", "threads", "memory_bytes", "master"}.
Answer: {"columns": [..], "rows": [[..]], "files": {kind: n}} or {"error": ".."}.
"""

import functools
import json
import math
import os
import re
import site
import sys
import urllib.parse

# What `pip install --user` installed is left out by `-I`, and nobody else's.
if sys.flags.isolated and sys.prefix == sys.base_prefix:
    site.addsitedir(site.getusersitepackages())

# Columns of each kind. A kind without files is an empty table of these.
KINDS = {
    "runs": {"run": "VARCHAR", "tool_version": "VARCHAR", "source": "VARCHAR", "unit": "VARCHAR", "command": "VARCHAR",
             "started_unix_s": "DOUBLE", "duration_s": "DOUBLE", "cpu_model": "VARCHAR", "cpus": "BIGINT",
             "kernel": "VARCHAR", "arch": "VARCHAR", "complete": "BOOLEAN", "accesses": "BIGINT",
             "problems": "BIGINT"},
    "lines": {"run": "VARCHAR", "tool_version": "VARCHAR", "exe": "VARCHAR", "type_name": "VARCHAR",
              "fields": "VARCHAR", "field_a": "VARCHAR", "field_b": "VARCHAR", "class": "VARCHAR", "unit": "VARCHAR",
              "phase_bytes": "BIGINT", "e": "DOUBLE", "transfers": "DOUBLE", "removable_share": "DOUBLE",
              "threads": "VARCHAR", "code_a": "VARCHAR", "code_b": "VARCHAR"},
    "accesses": {"run": "VARCHAR", "object": "BIGINT", "offset": "BIGINT", "reads": "BIGINT", "writes": "BIGINT",
                 "rmws": "BIGINT"},
    "answers": {"task": "VARCHAR", "batch": "VARCHAR", "plan": "VARCHAR", "plan_name": "VARCHAR", "job": "BIGINT",
                "answered_unix_s": "DOUBLE", "verb": "VARCHAR", "parameters": "VARCHAR", "tool_version": "VARCHAR",
                "status": "BIGINT", "error": "VARCHAR"},
    "checks": {"task": "VARCHAR", "batch": "VARCHAR", "subject": "VARCHAR", "rules": "VARCHAR",
               "tool_version": "VARCHAR", "type_name": "VARCHAR", "rule": "VARCHAR", "status": "VARCHAR",
               "message": "VARCHAR"},
    "predictions": {"task": "VARCHAR", "batch": "VARCHAR", "subject": "VARCHAR", "tool_version": "VARCHAR",
                    "machine": "VARCHAR", "cpus": "BIGINT", "seed": "BIGINT", "draws": "BIGINT", "before": "VARCHAR",
                    "after": "VARCHAR", "low": "DOUBLE", "median": "DOUBLE", "high": "DOUBLE", "verdict": "VARCHAR"},
}  # fmt: skip
FOLDERS = ["day", "host", "build"]


class Refused(Exception):
    """Said as it is, without a trace."""


def files_of(dataset, kind):
    """Whole files of one kind: writers rename, so whatever begins with a dot is not finished."""
    found, seen, start = [], set(), os.path.join(dataset, f"kind={kind}")

    def unseen(e):
        raise e  # What cannot be listed is unknown, not empty.

    if not os.path.lexists(start):
        return found
    for folder, folders, names in os.walk(start, onerror=unseen, followlinks=True):
        at = os.stat(folder)
        if (at.st_dev, at.st_ino) in seen:
            raise Refused(f"{folder}: a link to a folder that is in the dataset already; take it out")
        seen.add((at.st_dev, at.st_ino))
        folders[:] = sorted(f for f in folders if not f.startswith("."))
        for n in folders:
            readable(folder, n)
        for n in sorted(n for n in names if not n.startswith(".")):
            readable(folder, n)
            if n.endswith(".parquet"):
                found.append(os.path.join(folder, n))
            elif "=" in n:
                raise Refused(f"{os.path.join(folder, n)}: no folder (a file, or a link to nowhere); take it out")
    for path in found:
        if not os.path.isfile(path):
            raise Refused(f"{path}: no file (a pipe, or a link to nowhere); move it out of the dataset")
    return found


def readable(folder, name):
    """Engines know texts only: a name of other bytes, written out or as %FF, would be another name or none."""
    try:
        urllib.parse.unquote(name.encode().decode(), errors="strict")
    except UnicodeError:
        shown = os.path.join(folder, name).encode(errors="surrogateescape").decode(errors="backslashreplace")
        raise Refused(f"{shown}: its name is not UTF-8; rename it") from None


def name_of(view):
    return re.search(r"VIEW (\w+)", view).group(1)


def needed(sql, views):
    """The views that a query names, in their order, and the kinds of files below them."""
    text, kept = sql, []
    for view in reversed(views):
        if re.search(rf"\b{name_of(view)}\b", text):
            text += view
            kept.insert(0, view)
    return kept, [k for k in KINDS if re.search(rf"\bfiles_{k}\b", text)]


def refuse_newer(path, known):
    """A file that says that it is of a newer schema, or of one that is no number. Both engines pass over that.

    The footer's pairs are in Thrift's compact form: a text is 0x18, its length, its bytes. What is no Parquet file is
    said by the engine."""
    try:
        with open(path, "rb") as f:
            end = f.seek(0, os.SEEK_END)
            f.seek(max(0, end - 8))
            tail = f.read(8)
            size = int.from_bytes(tail[:4], "little")
            if len(tail) < 8 or tail[4:] != b"PAR1" or size > end - 8:
                return
            f.seek(end - 8 - size)
            footer = f.read(size)
    except OSError:
        return
    key = b"\x18\x0dtussle.schema"
    at = footer.find(key)
    if at < 0:
        return
    value = footer[at + len(key) :]
    text = value[2 : 2 + value[1]] if value[:1] == b"\x18" and len(value) > 1 and value[1] < 128 else b""
    if not text.isdigit() or len(text) > 9:
        raise Refused(f"{path}: its schema is no number; move it out of the dataset")
    if int(text) > known:
        raise Refused(f"{path}: schema {int(text)} is newer than {known}, which this tussle-fleet reads: update it")


def foreign(path, kind, columns):
    need = "task" if "task" in KINDS[kind] else "run"
    if need not in columns:
        raise Refused(f"{path}: no file of tussle: it has no column `{need}`; move it out of the dataset")


def fits(have, need):
    """A type of DuckDB where another is needed: whole numbers of any width are numbers, keys may be numbers."""
    number = re.fullmatch(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|FLOAT|DOUBLE|DECIMAL.*", have)
    return have == need or bool(number and need != "BOOLEAN")


class Duck:
    """DuckDB, embedded."""

    def __init__(self, request):
        try:
            import duckdb
        except ImportError:
            raise Refused("needs DuckDB: pip install duckdb, or name another Python with TUSSLE_PYTHON") from None
        self.module, self.files = duckdb, []
        # Names below the dataset have no letters with a meaning for globs; the way to it may have.
        os.chdir(request["dataset"])
        self.db = duckdb.connect()
        # It would be drawn on standard output, into the answer.
        self.db.execute("SET enable_progress_bar = false")
        self.db.execute(f"SET threads = {max(1, int(request['threads']))}")
        self.db.execute(f"SET memory_limit = '{int(request['memory_bytes'])}B'")
        # Footers are needed three times: to look at, to plan, to read.
        for option in ("parquet_metadata_cache", "enable_object_cache"):
            try:
                self.db.execute(f"SET {option} = true")
                break
            except duckdb.Error:
                continue  # The other name is that of older versions.

    def register(self, kind, files, dataset):
        columns = KINDS[kind]
        empty = ", ".join(f"NULL::{t} AS {c}" for c, t in columns.items())
        folders = ", ".join(f"NULL::VARCHAR AS {c}" for c in FOLDERS)
        if not files:
            self.db.execute(f"CREATE VIEW files_{kind} AS SELECT {empty}, {folders} WHERE false")
            return
        # Files of other versions may lack columns: they are matched by name.
        names = [os.path.relpath(f) for f in files]
        self.files += names
        listed = f"[{', '.join(map(quoted, names))}]"
        source = f"read_parquet({listed}, hive_partitioning = true, hive_types_autocast = false, union_by_name = true)"
        try:
            self.look(kind, listed)
            rows = self.db.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
        except self.module.Error as e:
            raise Refused(damaged(self.named(str(e), names))) from None
        have = {r[0]: r[1] for r in rows}
        for c, t in columns.items():
            if c in have and not fits(have[c], t):
                has = "text" if have[c] == "VARCHAR" else have[c]
                raise Refused(f"kind={kind}: `{c}` is {has} in one of the files, {t} is needed; it is none of tussle's")
        lacking = [f"NULL::{t} AS {c}" for c, t in columns.items() if c not in have]
        self.db.execute(f"CREATE VIEW files_{kind} AS SELECT {', '.join(['*', *lacking])} FROM {source}")

    def look(self, kind, listed):
        """A file of somebody else: its footer lacks our key column."""
        need = "task" if "task" in KINDS[kind] else "run"
        missing = self.db.execute(
            f"SELECT file_name FROM parquet_schema({listed}) GROUP BY file_name "
            f"HAVING count(*) FILTER (name = '{need}') = 0 ORDER BY file_name LIMIT 1"
        ).fetchall()
        for (path,) in missing:
            foreign(path, kind, [])

    def named(self, said, files):
        """What DuckDB says of a file it does not always name: each is read by itself then, until one fails."""
        for path in [] if ".parquet" in said else files:
            try:
                read = f"FROM read_parquet({quoted(path)}) t"
                self.db.execute(f"SELECT max(hash(t)) {read}").fetchall()
                have = {r[0]: r[1] for r in self.db.execute(f"DESCRIBE SELECT * {read}").fetchall()}
                for c in [c for c, t in have.items() if t in ("DOUBLE", "FLOAT")]:
                    if self.db.execute(f"SELECT count(*) {read} WHERE NOT isfinite({name(c)})").fetchall() != [(0,)]:
                        return no_number(path, c)
            except self.module.Error:
                return f"{path}: {said}"
        return said

    def run(self, views, sql, parameters):
        try:
            for view in views:
                self.db.execute(view)
            got = self.db.execute(re.sub(r":(\w+)", r"$\1", sql), parameters)
            return [d[0] for d in got.description], got.fetchall()
        except self.module.Error as e:
            raise Refused(damaged(self.named(str(e), self.files))) from None


class Spark:
    """Spark, in local mode or on a cluster."""

    def __init__(self, request):
        try:
            from pyspark.sql import SparkSession
        except ImportError:
            raise Refused("needs Spark: pip install pyspark, or name another Python with TUSSLE_PYTHON") from None
        threads = max(1, int(request["threads"]))
        master = request.get("master") or f"local[{threads}]"
        if master.startswith(("local", "spark://127.")):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        memory = max(1, int(request["memory_bytes"]) >> 20)
        self.spark = (
            SparkSession.builder.master(master)
            .appName("tussle fleet")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.driver.memory", f"{memory}m")
            .config("spark.sql.shuffle.partitions", str(2 * threads))
            # Listing folders and reading footers: a task for many, not one for each.
            .config("spark.default.parallelism", str(2 * threads))
            .config("spark.sql.sources.parallelPartitionDiscovery.parallelism", str(2 * threads))
            # A file is small: what opening it costs is near to what reading it does.
            .config("spark.sql.files.openCostInBytes", str(1 << 18))
            .config("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
            .config("spark.sql.parquet.mergeSchema", "true")
            .config("spark.sql.ansi.enabled", "false")
            .getOrCreate()
        )
        self.spark.sparkContext.setLogLevel("OFF")

    def register(self, kind, files, dataset):
        from pyspark.sql import functions as f

        types = {"VARCHAR": "string", "DOUBLE": "double", "BIGINT": "bigint", "BOOLEAN": "boolean"}
        columns = KINDS[kind] | {c: "VARCHAR" for c in FOLDERS}
        if not files:
            empty = ", ".join(f"CAST(NULL AS {types[t]}) AS `{c}`" for c, t in columns.items())
            self.spark.sql(f"SELECT {empty} WHERE false").createOrReplaceTempView(f"files_{kind}")
            return
        try:
            # The way to the dataset is no pattern, whatever letters it has.
            read = self.spark.read.option("__globPaths__", "false")
            read = read.option("basePath", os.path.join(dataset, f"kind={kind}"))
            frame = read.parquet(*sorted({os.path.dirname(p) for p in files}))
            self.look(kind, frame, f)
        except Refused:
            raise
        except Exception as e:
            raise Refused(damaged(first_cause(e))) from None
        for c, t in columns.items():
            if c not in frame.columns:
                frame = frame.withColumn(c, f.lit(None).cast(types[t]))
        frame.createOrReplaceTempView(f"files_{kind}")

    def look(self, kind, frame, f):
        """A file of somebody else has no key, in the schema of all of them or in its rows."""
        need = "task" if "task" in KINDS[kind] else "run"
        if need not in frame.columns:
            foreign(f"kind={kind}", kind, frame.columns)
        numbers = [c for c, t in frame.dtypes if t in ("double", "float") and c in KINDS[kind]]
        endless = [f.isnan(c) | (f.abs(f.col(c)) == float("inf")) for c in numbers]
        wrong = functools.reduce(lambda a, b: a | b, endless, f.col(need).isNull())
        found = frame.filter(wrong).select(f.input_file_name(), f.col(need).isNull(), *numbers).limit(1).collect()
        for path, lacking, *cells in found:
            if lacking:
                foreign(path, kind, [])
            bad = next(c for c, v in zip(numbers, cells) if v is not None and not math.isfinite(v))
            raise Refused(damaged(no_number(path, bad)))

    def run(self, views, sql, parameters):
        try:
            for view in views:
                self.spark.sql(view)
            frame = self.spark.sql(sql, args=parameters) if parameters else self.spark.sql(sql)
            return frame.columns, [tuple(r) for r in frame.collect()]
        except Exception as e:
            raise Refused(damaged(first_cause(e))) from None


def first_cause(e):
    """The first line, and the first one that names a file: Java says the cause after the consequence."""
    lines = [line.strip() for line in str(e).splitlines() if line.strip()] or [type(e).__name__]
    named = next((line for line in lines if ".parquet" in line and "kind=" in line), "")
    return " ".join(dict.fromkeys([lines[0], named]))


def no_number(path, column):
    return f"{path}: `{column}` has a value that is no number (NaN or infinite)"


def name(column):
    return '"' + column.replace('"', '""') + '"'


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


def damaged(what):
    """What an engine says; where it names a file, what to do with it."""
    what = " ".join(what.split())
    todo = "\nA damaged file is left alone; move it out of the dataset and export its evidence again."
    return what[:600] + (todo if ".parquet" in what else "")


# Of logarithms: engines do not agree on their last digits. Everything else is exact.
ROUNDED = {"mean_log", "sd_log", "old_per_million", "new_per_million"}


def plain(column, cell):
    """One form for both engines: decimals as whole numbers where they are, what is no number as null."""
    if isinstance(cell, bool) or cell is None or isinstance(cell, (int, str)):
        return cell
    if isinstance(cell, float):
        if not math.isfinite(cell):
            return None
        return float(f"{cell:.12g}") if column in ROUNDED else cell
    if type(cell).__name__ == "Decimal":
        return int(cell) if cell == cell.to_integral_value() else float(cell)
    return str(cell)


def answer(request):
    dataset = request["dataset"] = os.path.abspath(request["dataset"])
    marker = os.path.join(dataset, "tussle-dataset.json")
    try:
        with open(marker, encoding="utf-8") as f:
            schema = json.load(f)["schema"]
    except FileNotFoundError:
        raise Refused(f"{dataset}: no dataset: `tussle export --parquet --to {dataset}` makes one") from None
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise Refused(f"{marker}: {e}") from None
    if not isinstance(schema, int):
        raise Refused(f"{marker}: its schema is no number")
    if schema > request["schema"]:
        raise Refused(f"{dataset}: schema {schema} is newer than {request['schema']}, which this tussle-fleet reads")
    views = [v.strip() for v in re.sub(r"--[^\n]*", "", request["views"]).split(";") if v.strip()]
    sql = re.sub(r"--[^\n]*", "", request["sql"])
    views, kinds = needed(sql, views)
    # All files are looked at before an engine starts, which takes long.
    files = {kind: files_of(dataset, kind) for kind in kinds}
    for path in [p for paths in files.values() for p in paths]:
        refuse_newer(path, request["schema"])
    engine = Spark(request) if request["engine"] == "spark" else Duck(request)
    for kind, paths in files.items():
        engine.register(kind, paths, dataset)
    parameters = {k: v for k, v in request["parameters"].items() if re.search(rf":{k}\b", sql)}
    columns, rows = engine.run(views, sql, parameters)
    return {"columns": columns, "rows": [[plain(n, c) for n, c in zip(columns, r)] for r in rows],
            "files": {k: len(paths) for k, paths in files.items()}}


def main():
    try:
        out = answer(json.load(sys.stdin))
    except Refused as e:
        out = {"error": str(e)}
    except OSError as e:
        out = {"error": str(e)}
    json.dump(out, sys.stdout)


if __name__ == "__main__":
    main()
