"""Types and meanings. Offsets and sizes are bytes unless the name says bits."""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Literal, final

__version__: str

Path = str | PathLike[str]

class Error(Exception):
    """What the command line would say on its error stream. Its exit status would be 2."""

@final
class Table:
    """Named columns as an Arrow stream. A null is unknown, never zero.

    Rows are made in batches of at most 65,536 when somebody takes them, so that only one batch is in memory.
    """

    @property
    def name(self) -> str:
        """Name of the table."""
    @property
    def column_names(self) -> list[str]:
        """Names of its columns; a unit is the last part of a name."""
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The Arrow PyCapsule interface. A requested schema is ignored, as producers may."""
    def __arrow_c_schema__(self) -> object:
        """The columns' types, by the Arrow PyCapsule interface."""

@final
class View:
    """What a verb prints. In a notebook it shows itself as the command line's HTML."""

    @property
    def kind(self) -> str:
        """Name of the JSON document: ``report``, ``diff``, ``check``, ..."""
    @property
    def status(self) -> int:
        """As the command line would exit: 0 clean, 1 a finding, 2 something could not be judged."""
    def text(self) -> str:
        """What the command line prints."""
    def json(self) -> str:
        """The JSON document (docs/schema) as text."""
    def dict(self) -> dict[str, Any]:
        """The JSON document (docs/schema)."""
    def markdown(self) -> str:
        """As ``--format md`` prints it."""
    def html(self) -> str:
        """One HTML page, its words explained at its end."""
    def _repr_html_(self) -> str:
        """The page in a frame, for a notebook."""

@final
class Member:
    """A member of a struct or union, or a base class."""

    @property
    def name(self) -> str | None:
        """``None``: it has none."""
    @property
    def type(self) -> str:
        """Its type, as C writes it."""
    @property
    def offset_bytes(self) -> int | None:
        """From the object's start; of a bit-field its storage unit's. ``None``: its place is not known."""
    @property
    def size_bytes(self) -> int | None:
        """Bytes; ``None``: not known."""
    @property
    def bit_offset(self) -> int | None:
        """First bit in the storage unit, of bit-fields."""
    @property
    def bits(self) -> int | None:
        """Width of a bit-field in bits."""
    @property
    def line(self) -> int | None:
        """Line of its declaration."""

@final
class Hole:
    """Unused bytes between members; what is unused at the end is ``Type.padding_bytes``."""

    @property
    def after(self) -> str | None:
        """Name of the member before it; ``None``: at the start, or the member has no name."""
    @property
    def offset_bytes(self) -> int:
        """Its first byte, from the object's start."""
    @property
    def size_bytes(self) -> int:
        """Bytes."""

@final
class Type:
    """One definition of a type."""

    @property
    def name(self) -> str:
        """Its name, with ``struct`` or ``union`` where C needs it."""
    @property
    def kind(self) -> Literal["struct", "union", "other"]:
        """``struct`` (classes, too), ``union`` or ``other``."""
    @property
    def size_bytes(self) -> int | None:
        """Bytes; ``None``: not known."""
    @property
    def align_bytes(self) -> int:
        """Alignment that objects have, bytes."""
    @property
    def align_inferred(self) -> bool:
        """The alignment is guessed from gaps: BTF does not keep ``aligned``."""
    @property
    def file(self) -> str | None:
        """Source file of its declaration."""
    @property
    def line(self) -> int | None:
        """Line of its declaration."""
    @property
    def members(self) -> list[Member]:
        """Members in order of offset."""
    @property
    def holes(self) -> list[Hole]:
        """Holes in order of offset."""
    @property
    def padding_bytes(self) -> int:
        """Unused bytes at the end."""
    def phases(self, line_bytes: int = 64) -> list[int]:
        """Where in a line objects of this type can begin, bytes."""
    def fields(self) -> Table:
        """Leaf fields: type_name, path, offset_bytes, size_bytes, field_type, bits, overlaps."""
    def lines(self, line_bytes: int = 64, phase: int | None = None) -> Table:
        """Fields by line at one phase (bytes), or at all that are possible."""
    def text(self, line_bytes: int = 64) -> str:
        """pahole's text."""
    def view(self, line_bytes: int = 64, phase: int | None = None) -> View:
        """Every line as a row of bytes, as ``tussle layout --lines`` draws it."""
    def _repr_html_(self) -> str:
        """At phase 0: a notebook shows one picture, not eight."""

@final
class Types:
    """A file that holds layouts. Types are read when they are asked for."""

    @property
    def path(self) -> str:
        """What was opened, or ``bytes``."""
    @property
    def arch(self) -> str | None:
        """As the kernel names it; raw BTF and snapshots do not tell."""
    @property
    def build_id(self) -> str | None:
        """Build-id of an ELF file, hex."""
    @property
    def problems(self) -> list[str]:
        """What could not be read."""
    def names(self) -> list[str]:
        """Names of all structs and unions, sorted."""
    def definitions(self, name: str) -> list[Type]:
        """All definitions of a name, where units disagree."""
    def __getitem__(self, name: str) -> Type:
        """The first definition. Raises ``Error`` with close names when there is none."""
    def __contains__(self, name: str) -> bool:
        """There is a type of that name."""

@final
class Evidence:
    """What was recorded. It is read when something of it is asked for."""

    @property
    def problems(self) -> list[str]:
        """What is damaged, with table and byte. Reads all of it."""
    @property
    def table_names(self) -> list[str]:
        """Tables that the file has and that can be read, at least in part."""
    def table(self, name: str) -> Table:
        """A table of docs/evidence.md. Row numbers are ids, from 0. Raises ``Error`` when the file does not have it, or
        when nothing of it can be read; a table of which a part is lost is a ``UserWarning``.

        Large tables are read a block at a time, as rows are taken; they are never in memory as a whole.
        """
    def _repr_html_(self) -> str:
        """The report, for a notebook."""

def open(path_or_bytes: Path | bytes, *, btf_base: Path | None = None) -> Types:
    """An executable, object, kernel, module, BTF file or snapshot.

    ``btf_base``: the kernel whose BTF a module's continues.
    """

def evidence(path_or_bytes: Path | bytes) -> Evidence:
    """What ``tussle record``, ``record-kernel``, ``live`` or ``import`` wrote."""

def contention(
    evidence: Evidence,
    *,
    line_bytes: int = 64,
    phase: int | None = None,
    window: int | None = None,
    split: Literal["observed", "even"] = "observed",
) -> Table:
    """One row per fight over lines, the costliest first: fields, class, E, transfers, reads, writes, threads, code.

    ``e`` and ``transfers`` are in the evidence's own unit (column ``unit``); never add rows of different units.
    ``line_bytes`` (64 or 128) and ``phase`` are bytes. ``phase``: what if every object began so many bytes into a line?
    ``window``: accesses, instead of the recorder's. What is damaged is a ``UserWarning``.
    """

def report(
    evidence: Evidence,
    names: Sequence[str] = (),
    *,
    line_bytes: int = 64,
    phase: int | None = None,
    window: int | None = None,
    split: Literal["observed", "even"] = "observed",
    sources: Path = ".",
) -> View:
    """What ``tussle report`` prints. Status 1: a layout helps; 2: nothing was seen that could be judged.

    ``line_bytes`` (64 or 128) and ``phase`` are bytes, ``window`` is accesses. ``sources``: the folder whose files are
    shown beside the places of code, unless they changed since.
    """

def advise(
    evidence: Evidence,
    name: str,
    *,
    line_bytes: int | None = None,
    moves: int = 1,
    frozen: Sequence[str] = (),
    builds: Sequence[Path] = (),
) -> View:
    """Moves of fields of one struct, each with its bill; they must hold in all ``builds``.

    ``moves``: fields moved together at most, 1 to 3. ``frozen``: members that stay. ``line_bytes``: bytes. What ``fix``
    would refuse by the sources below the current folder is left out. What is damaged is a ``UserWarning``.
    """

def diff(
    old: Types | Path,
    new: Types | Path,
    names: Sequence[str] = (),
    *,
    hot: Sequence[str] = (),
    line_bytes: int = 64,
    phase: int | None = None,
) -> View:
    """What changed between two builds. Status 1: fields of ``hot`` share a line that did not before.

    ``line_bytes`` and ``phase`` are bytes; without ``phase`` all that are possible count.
    """

def check(builds: Sequence[Types | Path], rules: Path) -> View:
    """Layouts against a rule file. Status 1: a rule is violated; 2: one cannot be checked."""

def place(builds: Sequence[Types | Path], name: str, field: str, *, line_bytes: int = 64) -> View:
    """Where a new field (``"u32 flags"``) fits into a type without moving any other, in every build.

    ``line_bytes``: bytes.
    """

def compare(one: Evidence | Path, other: Evidence | None = None, *, margin_percent: float = 1.0) -> View:
    """Two evidences side by side, or the arms of one result of ``tussle bench`` (a path).

    ``margin_percent``: a slowdown up to it is no regression.
    """

def bench(path: Path) -> Table:
    """The samples of a result of ``tussle bench``: arm, pair, metric, value, ...

    ``wall_s``, ``user_s``, ``system_s`` and ``foreign_s`` (CPU that others had meanwhile) are seconds.
    Lines that cannot be read are a ``UserWarning``.
    """

def predict(
    subject: Evidence | str,
    *,
    machine: str | None = None,
    cpus: Sequence[int] = (),
    before: str | None = None,
    after: str | None = None,
    set: Mapping[str, float] = {},
    draws: int | None = None,
    seed: int = 1,
) -> View:
    """What a layout or a lock costs on a machine that you do not own: a scenario by name, or recorded operations.

    ``cpus``: the last is the answer, all make the curve. ``draws``: until it is decided by default. Effects are
    relative changes of operations per second: 0.1 is 10% more.
    """
