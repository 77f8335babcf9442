"""Which fields of which structs fight over a cache line.

    >>> import tussle
    >>> mm = tussle.open("/sys/kernel/btf/vmlinux")["mm_struct"]

Tables are Arrow streams: ``pyarrow.table(t)``, ``polars.DataFrame(t)``, ``duckdb.sql("select * from t")`` take them as
they are. Every error is a ``tussle.Error`` with the text of the command line.
"""

from ._tussle import (
    Error,
    Evidence,
    Hole,
    Member,
    Table,
    Type,
    Types,
    View,
    __version__,
    advise,
    bench,
    check,
    compare,
    contention,
    diff,
    evidence,
    open,
    place,
    predict,
    report,
)

__all__ = [
    "Error",
    "Evidence",
    "Hole",
    "Member",
    "Table",
    "Type",
    "Types",
    "View",
    "__version__",
    "advise",
    "bench",
    "check",
    "compare",
    "contention",
    "diff",
    "evidence",
    "open",
    "place",
    "predict",
    "report",
]
