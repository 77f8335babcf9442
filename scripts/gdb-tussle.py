"""Commands for gdb that ask tussle about the process being debugged.

    (gdb) source scripts/gdb-tussle.py
    (gdb) tussle-where &stats.hits        who lies at an address, and who shares its line
    (gdb) tussle-where mm                 a pointer to a struct: its type tells the fields, on the heap too
    (gdb) tussle-where mm &mm->owner      the object, and the address in it
    (gdb) tussle-layout *mm               its type, line by line

TUSSLE names the binary (default: tussle from PATH).
"""
import os
import subprocess

import gdb


def tussle(*args):
    try:
        out = subprocess.run([os.environ.get("TUSSLE", "tussle"), *args], capture_output=True, text=True)
    except OSError as e:
        raise gdb.GdbError("tussle: %s (set TUSSLE to the binary)" % e)
    gdb.write(out.stdout)
    if out.stderr:
        gdb.write(out.stderr, gdb.STDERR)


def struct_behind(value):
    """The struct that a pointer points to, if it has a name."""
    kind = value.type.strip_typedefs()
    if kind.code != gdb.TYPE_CODE_PTR:
        return None
    target = kind.target().strip_typedefs().unqualified()
    known = target.code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION) and target.tag
    return target.tag if known else None


def address(value):
    if value.type.strip_typedefs().code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION, gdb.TYPE_CODE_ARRAY):
        value = value.address
    return int(value) & 0xFFFFFFFFFFFFFFFF


class Where(gdb.Command):
    """tussle-where [OBJECT] ADDRESS: what lies there, and who shares its line."""

    def __init__(self):
        super().__init__("tussle-where", gdb.COMMAND_DATA, gdb.COMPLETE_EXPRESSION)

    def invoke(self, argument, from_tty):
        words = gdb.string_to_argv(argument)
        pid = gdb.selected_inferior().pid
        if not words or not pid:
            raise gdb.GdbError("tussle-where [OBJECT] ADDRESS, while a process runs")
        first = gdb.parse_and_eval(words[0])
        at = address(gdb.parse_and_eval(words[-1]))
        tag = struct_behind(first)
        told = ["--type", tag, "--base", hex(address(first))] if tag else []
        tussle("where", str(pid), hex(at), *told)


class Layout(gdb.Command):
    """tussle-layout EXPRESSION: the lines of its type."""

    def __init__(self):
        super().__init__("tussle-layout", gdb.COMMAND_DATA, gdb.COMPLETE_EXPRESSION)

    def invoke(self, argument, from_tty):
        of = gdb.parse_and_eval(argument).type.strip_typedefs().unqualified()
        if of.tag is None:
            raise gdb.GdbError("%s has no named type" % argument)
        tussle("layout", gdb.current_progspace().filename, "-C", of.tag, "--lines")


Where()
Layout()
