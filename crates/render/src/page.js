"use strict";
(() => {
const el = (tag, cls, text) => {
  const e = document.createElement(tag);
  if (cls) e.className = cls;
  if (text !== undefined) e.textContent = text;
  return e;
};
const many = n => `${n} byte${n === 1 ? "" : "s"}`;
const nice = n => n.toLocaleString("en-US");
const colour = list => {
  const c = list.map(t => `var(--t${t % 8})`);
  if (!c.length) return "";
  if (c.length === 1) return c[0];
  const step = 8;
  const stops = c.map((x, i) => `${x} ${i * step}px ${(i + 1) * step}px`).join(",");
  return `repeating-linear-gradient(135deg,${stops})`;
};
// The same rules as bytes.rs has: a line is fought for when one thread stores and another touches it.
// At another phase the lines are those that the drawn bytes lie on then, filled with what moves onto them.
const rows = (d, phase) => {
  const moved = phase !== d.phase_bytes;
  const own = moved ? d.stretches.filter(s => s.kind !== "neighbour") : d.stretches;
  const out = new Map();
  const put = (s, open) => {
    let at = s.offset_bytes + phase;
    const end = at + s.size_bytes;
    while (at < end) {
      const first = Math.floor(at / d.line_bytes) * d.line_bytes;
      if (open && !out.has(first) && out.size < 8) out.set(first, []);
      const size = Math.min(first + d.line_bytes, end) - at;
      out.get(first)?.push({ column: at - first, size, s });
      at += size;
    }
  };
  own.forEach(s => put(s, true));
  if (moved) d.beyond.forEach(s => put(s, false));
  out.forEach(pieces => pieces.sort((a, b) => a.column - b.column));
  return [...out].sort((a, b) => a[0] - b[0]);
};
const fighters = (d, pieces) => {
  const uses = pieces.flatMap(p => p.s.uses);
  const all = [...new Set(uses.map(u => u.thread))];
  return uses.some(u => u.writes > 0) && all.length > 1 ? all : [];
};
const words = (d, s) => {
  const uses = s.uses.map(u => `${d.threads[u.thread] ?? "unknown"}: ${nice(u.reads)} reads, ${nice(u.writes)} writes`);
  const name = s.kind === "hole" ? "hole" : s.name;
  return `${name}, ${many(s.size_bytes)} at ${s.offset_bytes}. ${uses.join("; ") || "not touched"}`;
};
const detail = (d, s, box) => {
  box.replaceChildren();
  const head = el("p");
  head.append(el("span", "n", s.kind === "hole" ? "hole" : s.name), ` ${many(s.size_bytes)} at offset ${s.offset_bytes}`);
  box.append(head);
  if (s.kind === "neighbour") box.append(el("p", "d", "Another object: it lay here in this run; the allocator decides anew in the next."));
  if (!s.uses.length) box.append(el("p", "d", "Not touched in this run."));
  else {
    const t = el("table"), h = el("tr");
    for (const x of ["thread", "reads", "writes"]) h.append(el("th", "", x));
    t.append(h);
    for (const u of s.uses) {
      const r = el("tr");
      r.append(el("td", "", d.threads[u.thread] ?? "unknown"), el("td", "r", nice(u.reads)), el("td", "r", nice(u.writes)));
      t.append(r);
    }
    box.append(t);
  }
  if (s.code.length) {
    box.append(el("p", "d", "code"));
    const l = el("ul");
    for (const c of s.code) l.append(el("li", "n", c));
    box.append(l);
  }
};
const draw = (fig, d, phase) => {
  const box = fig.querySelector(".lines"), det = fig.querySelector(".det");
  box.replaceChildren();
  for (const [first, pieces] of rows(d, phase)) {
    const war = fighters(d, pieces);
    const ln = el("div", war.length ? "ln war" : "ln");
    ln.append(el("span", "at", `byte ${first - phase}`));
    const row = el("div", "row");
    row.style.gridTemplateColumns = `repeat(${d.line_bytes},1fr)`;
    for (const p of pieces) {
      const s = p.s;
      const cls = ["c", s.kind === "hole" ? "h" : "", s.kind === "neighbour" ? "nb" : "", s.uses.length ? "" : "no",
        s.uses.some(u => u.writes > 0) ? "st" : ""].filter(Boolean).join(" ");
      const b = el("button", cls, s.short);
      b.type = "button";
      b.style.gridColumn = `${p.column + 1}/span ${p.size}`;
      if (s.uses.length) b.style.setProperty("--c", colour(s.uses.map(u => u.thread)));
      b.title = words(d, s);
      b.setAttribute("aria-pressed", "false");
      b.onclick = () => {
        for (const x of fig.querySelectorAll("[aria-pressed=true]")) x.setAttribute("aria-pressed", "false");
        b.setAttribute("aria-pressed", "true");
        detail(d, s, det);
      };
      row.append(b);
    }
    ln.append(row, el("span", "say", war.length ? `${war.length} threads fight for this line` : "nobody fights for this line"));
    box.append(ln);
  }
};
for (const fig of document.querySelectorAll("figure.by")) {
  const d = JSON.parse(fig.querySelector("script").textContent);
  draw(fig, d, d.phase_bytes);
  if (d.phases.length < 2) continue;
  const label = el("label", "", "Where the allocator puts it: "), range = el("input"), say = el("output");
  range.type = "range";
  range.min = 0;
  range.max = d.phases.length - 1;
  range.value = Math.max(0, d.phases.findIndex(p => p.phase_bytes === d.phase_bytes));
  const tell = () => {
    const { phase_bytes: p, expected_invalidations: e } = d.phases[range.value];
    const here = p === d.phase_bytes ? "as drawn first" : "also possible; other objects on these lines are not known there";
    say.textContent = `${p} bytes into a line, ${here}` + (e === null ? "" : `; ${nice(e)} expected invalidations`);
    range.setAttribute("aria-valuetext", say.textContent);
    draw(fig, d, p);
  };
  range.oninput = tell;
  tell();
  label.append(range, say);
  fig.querySelector("figcaption").after(label);
}
const key = cell => {
  const text = (cell?.textContent ?? "").trim(), n = text.match(/^[<~x]?[-+]?[\d,]+(\.\d+)?/);
  return n ? [0, parseFloat(n[0].replace(/[<~x,]/g, ""))] : [1, text];
};
const PAGE = 300;
for (const table of document.querySelectorAll("table[data-t]")) {
  const body = table.tBodies[0];
  const spare = table.parentElement.querySelector("script.rest");
  let rest = spare ? JSON.parse(spare.textContent) : [];
  const right = [...table.tHead.rows[0].cells].map(c => c.classList.contains("r"));
  const grow = n => {
    for (const cells of rest.splice(0, n)) {
      const r = el("tr");
      cells.forEach(([text, cls], i) => {
        const td = el("td", right[i] ? "r" : "");
        td.append(cls ? el("span", cls, text) : text);
        r.append(td);
      });
      body.append(r);
    }
    more.hidden = !rest.length;
    more.textContent = `show ${nice(Math.min(PAGE, rest.length))} more of ${nice(rest.length)}`;
  };
  const more = el("button", "more");
  more.type = "button";
  more.onclick = () => grow(PAGE);
  table.after(more);
  grow(0);
  table.grow = () => grow(rest.length);
  [...table.tHead.rows[0].cells].forEach((th, i) => {
    if (!th.textContent) return;
    const b = el("button", "", th.textContent);
    b.type = "button";
    th.replaceChildren(b);
    b.onclick = () => {
      table.grow();
      const down = th.getAttribute("aria-sort") !== "descending";
      for (const other of th.parentElement.cells) other.removeAttribute("aria-sort");
      th.setAttribute("aria-sort", down ? "descending" : "ascending");
      const all = [...body.rows].map(r => [key(r.cells[i]), r]);
      all.sort(([a], [b]) => (a[0] - b[0] || (a[1] < b[1] ? -1 : a[1] > b[1] ? 1 : 0)) * (down ? -1 : 1));
      body.append(...all.map(x => x[1]));
    };
  });
}
const search = document.getElementById("q");
const look = () => {
  const q = search.value.toLowerCase();
  for (const table of document.querySelectorAll("table[data-t]")) {
    if (q) table.grow();
    for (const r of table.tBodies[0].rows) r.hidden = !!q && !r.textContent.toLowerCase().includes(q);
  }
  for (const s of document.querySelectorAll("section.item")) s.hidden = !!q && !s.textContent.toLowerCase().includes(q);
};
search.oninput = look;
document.getElementById("theme").onclick = () => {
  const root = document.documentElement, dark = matchMedia("(prefers-color-scheme:dark)").matches;
  const now = root.dataset.theme || (dark ? "dark" : "light");
  root.dataset.theme = now === "dark" ? "light" : "dark";
};
const items = [...document.querySelectorAll("section.item")];
document.onkeydown = e => {
  if (e.target instanceof HTMLInputElement && e.target.type !== "range") {
    if (e.key === "Escape") { search.value = ""; look(); search.blur(); }
    return;
  }
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  if (e.key === "/") { search.focus(); e.preventDefault(); }
  if (e.key === "j" || e.key === "k") {
    const here = items.filter(s => !s.hidden), top = here.findIndex(s => s.getBoundingClientRect().top > 8);
    const now = top < 0 ? here.length : top;
    const at = here[e.key === "j" ? (here[now]?.getBoundingClientRect().top < 40 ? now + 1 : now) : now - 2] ?? here[e.key === "j" ? here.length - 1 : 0];
    if (at) { at.scrollIntoView(); at.querySelector("a.an")?.focus({ preventScroll: true }); }
  }
};
// Paper has nothing to click.
const folded = [...document.querySelectorAll("details:not([open])")];
addEventListener("beforeprint", () => folded.forEach(d => (d.open = true)));
addEventListener("afterprint", () => folded.forEach(d => (d.open = false)));
document.body.dataset.ready = "1";
})();
