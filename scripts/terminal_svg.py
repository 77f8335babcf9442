#!/usr/bin/env python3
"""Runs a command on a terminal of its own and draws what it prints as an SVG.

    scripts/terminal_svg.py [--columns N] [--rows N] [--from TEXT] OUT.svg COMMAND [ARGUMENT..]

The picture holds the text itself, so it can be searched and read aloud. --from begins at the first line that has TEXT,
--rows stops after so many lines; both say in the picture that something was left out.
"""
import argparse, fcntl, os, pty, re, struct, sys, termios, xml.sax.saxutils as xml

CELL_W, CELL_H, PAD = 8.0, 18, 14
BACK, PLAIN = "#14161a", "#d7dae0"
# The eight colours of a terminal, readable on BACK.
COLOURS = {30: "#5c6370", 31: "#ff6b68", 32: "#8fc77a", 33: "#e0b25a", 34: "#6fa8ff", 35: "#c792ea", 36: "#5fc6cf", 37: PLAIN}
SEQUENCE = re.compile(r"\x1b\[([0-9;]*)m|\x1b\[[0-9;?]*[A-Za-z]")


def printed(command, columns):
    """What `command` writes to a terminal of that width, and its exit status."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm-256color", COLUMNS=str(columns))
        os.execvp(command[0], command)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    out = bytearray()
    while True:
        try:
            block = os.read(terminal, 65536)
        except OSError:  # the other end is closed
            break
        if not block:
            break
        out += block
    return out.decode("utf-8", "replace"), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def lines_of(text):
    """Lines as a screen would keep them: progress is overwritten."""
    return [line.split("\r")[-1] for line in text.replace("\r\n", "\n").rstrip().split("\n")]


def pieces(line):
    """(text, colour or None, bold, dim) of one line."""
    colour, bold, dim, at = None, False, False, 0
    for match in SEQUENCE.finditer(line):
        if match.start() > at:
            yield line[at : match.start()], colour, bold, dim
        at = match.end()
        for code in (int(c or 0) for c in (match[1] or "").split(";")) if match[1] is not None else ():
            if code == 0:
                colour, bold, dim = None, False, False
            elif code == 1:
                bold = True
            elif code == 2:
                dim = True
            elif code % 60 in COLOURS:
                colour = COLOURS[code % 60]
    if at < len(line):
        yield line[at:], colour, bold, dim


def drawn(lines, columns, title):
    width, height = columns * CELL_W + 2 * PAD, len(lines) * CELL_H + 2 * PAD
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" role="img" '
        f'aria-label={xml.quoteattr(title)}>',
        f'<rect width="100%" height="100%" rx="6" fill="{BACK}"/>',
        f'<g font-family="ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace" font-size="13" fill="{PLAIN}">',
    ]
    for row, line in enumerate(lines):
        column, y = 0, PAD + row * CELL_H + 13
        for text, colour, bold, dim in pieces(line):
            style = "".join(
                [f' fill="{colour}"' if colour else "", ' font-weight="bold"' if bold else "", ' opacity=".6"' if dim else ""]
            )
            if text.strip():
                # The length is fixed so that columns stand below each other in any font.
                out.append(
                    f'<text x="{PAD + column * CELL_W:.0f}" y="{y}" textLength="{len(text) * CELL_W:.0f}" '
                    f'xml:space="preserve"{style}>{xml.escape(text)}</text>'
                )
            column += len(text)
    return "\n".join(out + ["</g>", "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--columns", type=int, default=110)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--from", dest="start", default="")
    parser.add_argument("out")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    text, status = printed(args.command, args.columns)
    if status not in (0, 1):
        sys.exit(f"{' '.join(args.command)}: exit {status}\n{text}")
    lines = lines_of(text)
    first = next((i for i, l in enumerate(lines) if args.start in SEQUENCE.sub("", l)), None)
    if first is None:
        sys.exit(f"nothing printed has {args.start!r}")
    shown = lines[first : first + args.rows]
    shown = (["\x1b[2m...\x1b[0m"] if first else []) + shown + (["\x1b[2m...\x1b[0m"] if first + args.rows < len(lines) else [])
    title = "Terminal: " + " ".join(["tussle", *args.command[1:]])
    shown = [f"\x1b[2m$\x1b[0m \x1b[1mtussle {' '.join(a for a in args.command[1:] if a != '--no-pager')}\x1b[0m", *shown]
    with open(args.out, "w", encoding="utf-8") as file:
        file.write(drawn(shown, args.columns, title))


main()
