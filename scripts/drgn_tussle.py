"""For drgn: what lies at an address of a traced program, and who shares its line.

    >>> from drgn_tussle import where
    >>> where(prog, prog["stats"].hits.address_of_())
    >>> where(prog, mm.owner.address_of_(), mm)      # with the object that it lies in

TUSSLE names the binary (default: tussle from PATH). A program of its own is asked by its process id; a kernel has none,
there the fields of the object's type are shown (`tussle layout --lines`).
"""
import os
import subprocess


def command(prog, address, owner=None, file=None):
    """The command line, apart from running it."""
    binary = os.environ.get("TUSSLE", "tussle")
    tag = base = None
    if owner is not None:
        tag, base = owner.type_.type.tag, hex(owner.value_())
    pid = getattr(prog, "main_thread", None)
    if pid is None:
        return [binary, "layout", file or "/sys/kernel/btf/vmlinux", "-C", tag or "", "--lines"]
    told = ["--type", tag, "--base", base] if tag else []
    return [binary, "where", str(prog.main_thread().tid), hex(int(address)), *told]


def where(prog, pointer, owner=None, file=None):
    subprocess.run(command(prog, pointer.value_(), owner, file), check=False)
