#!/usr/bin/env python3
"""Makes the tables of docs/kernel.md anew from recordings.

    scripts/kernel-page.py FOLDER

FOLDER holds what examples/kernel-pairs/matrix.sh recorded (6.1-mmap1.data and so on), and what it printed in
matrix.log. A table stands between `<!-- fields NAME ROWS -->`, `<!-- against NAME NAME ROWS -->` or `<!-- matrix -->`
and `<!-- end -->`. TUSSLE names the program.
"""

import os
import re
import subprocess
import sys

PAGE = os.path.join(os.path.dirname(__file__), "..", "docs", "kernel.md")


def table(folder, names, rows):
    """The first rows of the report's table of fields, as Markdown."""
    files = [os.path.join(folder, name + ".data") for name in names]
    command = [os.environ.get("TUSSLE", "tussle"), "report", "--format", "md", *files]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = said.stdout.splitlines()
    heads = [i for i, line in enumerate(lines) if re.match(r"\| (transfers \| share \| field|field) \|", line)]
    if not heads:
        sys.exit(f"{' '.join(command)}: no table of fields: {said.stderr}")
    kept = lines[heads[0] : heads[0] + 2 + rows]
    if len(names) > 1:
        short = [name.split("-")[0] for name in names]
        kept[0] = kept[0].replace("first", short[0]).replace("second", short[1])
    kept[1] = re.sub(r"(-+)", "---", kept[1]).replace(" ", "")
    return "\n".join(kept)


def matrix(folder):
    """Of each workload and kernel the share of transfers with a field's name, and what else is above 1%."""
    rows, kernels = {}, []
    with open(os.path.join(folder, "matrix.log"), encoding="utf-8") as log:
        for line in log:
            kernel, workload = re.match(r"(\S+) (\w+)[ ,]", line).groups()
            if kernel not in kernels:
                kernels.append(kernel)
            rows.setdefault(workload, {})[kernel] = cell(line)
    head = ["workload", *kernels]
    made = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for workload, cells in rows.items():
        made.append(f"| {workload} | " + " | ".join(cells.get(k, "not recorded") for k in kernels) + " |")
    return "\n".join(made)


def cell(line):
    """One recording's shares."""
    kinds = [("contents", "are contents"), ("owner only", "only an owner's"), ("nothing", "none")]
    named = re.search(r"([\d.]+)% have a field's name", line)
    if not named:
        return "not recorded"
    rest = [(name, re.search(r"([\d.]+)% " + words, line)) for name, words in kinds]
    more = [f"{name} {found[1]}%" for name, found in rest if found and float(found[1]) > 1]
    return ", ".join([named[1] + "%", *more])


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(PAGE, encoding="utf-8") as page:
        text = page.read()
    mark = re.compile(r"(<!-- (fields|against) ([^>]*?) (\d+) -->\n).*?(\n<!-- end -->)", re.S)

    def fresh(found):
        made = table(sys.argv[1], found[3].split(), int(found[4]))
        return found[1] + "\n" + made + "\n" + found[5]

    text, count = mark.subn(fresh, text)
    if os.path.exists(os.path.join(sys.argv[1], "matrix.log")):
        made = matrix(sys.argv[1])
        both = re.compile(r"(<!-- matrix -->\n).*?(\n<!-- end -->)", re.S)
        text, more = both.subn(lambda found: found[1] + "\n" + made + "\n" + found[2], text)
        count += more
    with open(PAGE, "w", encoding="utf-8") as page:
        page.write(text)
    print(f"{count} tables")


if __name__ == "__main__":
    main()
