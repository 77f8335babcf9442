// Opens pages in headless Chromium, light and dark, and prints what it saw: one JSON object a line.
//
//   node drive.mjs [--axe axe.min.js] [--pictures FOLDER] PAGE..
//
// It needs nothing but node and Chromium: commands go through the browser's debugging pipe.
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";

const LIMIT_MS = 60_000;
const given = { pages: [] };
for (let a = process.argv.slice(2); a.length; ) {
  const word = a.shift();
  if (word.startsWith("--")) given[word.slice(2)] = a.shift();
  else given.pages.push(resolve(word));
}
const axe = given.axe ? readFileSync(given.axe, "utf8") : null;
// Pages that axe has seen in a scheme: those that are opened several times are timed, and of a large one it takes a minute.
const checked = new Set();
const profile = mkdtempSync(join(tmpdir(), "tussle-pages-"));
const flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe"];
const stdio = ["ignore", "ignore", "ignore", "pipe", "pipe"];
const browser = spawn("chromium", [...flags, `--user-data-dir=${profile}`, "about:blank"], { stdio });
// Closed, not killed: what its processes still write would be left behind.
const end = code => {
  browser.removeAllListeners("exit");
  const leave = () => {
    rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
    process.exit(code);
  };
  if (browser.exitCode !== null || browser.signalCode !== null || !browser.pid) return leave();
  browser.on("exit", leave);
  send("Browser.close").catch(() => {});
  setTimeout(() => browser.kill("SIGKILL"), 10_000);
};
const fail = why => {
  console.error(`drive.mjs: ${why}`);
  end(3);
};
setTimeout(() => fail("nothing for too long"), LIMIT_MS * (1 + given.pages.length) * (axe ? 3 : 1)).unref();
browser.on("error", e => fail(e.message));
browser.on("exit", code => fail(`chromium ended with ${code}`));

let last = 0, part = "";
const answers = new Map(), listeners = [];
browser.stdio[4].setEncoding("utf8").on("data", text => {
  const messages = (part + text).split("\0");
  part = messages.pop();
  for (const m of messages.map(m => JSON.parse(m))) {
    if (m.id) {
      const [done, failed] = answers.get(m.id);
      answers.delete(m.id);
      m.error ? failed(new Error(m.error.message)) : done(m.result);
    } else listeners.forEach(l => l(m));
  }
});
const send = (method, params = {}, sessionId) => new Promise((done, failed) => {
  answers.set(++last, [done, failed]);
  browser.stdio[3].write(JSON.stringify({ id: last, method, params, sessionId }) + "\0");
});

const thrown = details => details.exception?.description ?? details.text;

// One tab, what goes wrong in it and whom it asks for anything.
const open = async scheme => {
  const { targetId } = await send("Target.createTarget", { url: "about:blank" });
  const { sessionId } = await send("Target.attachToTarget", { targetId, flatten: true });
  const tab = { errors: [], requests: [] };
  listeners.push(({ method, params, sessionId: of }) => {
    if (of !== sessionId) return;
    const p = params;
    if (method === "Runtime.exceptionThrown") tab.errors.push(thrown(p.exceptionDetails));
    if (method === "Runtime.consoleAPICalled") tab.errors.push(p.args.map(a => a.value).join(" "));
    if (method === "Log.entryAdded" && p.entry.level !== "verbose") tab.errors.push(p.entry.text);
    if (method === "Network.requestWillBeSent") tab.requests.push(p.request.url);
    if (method === "Page.loadEventFired") tab.loaded?.();
  });
  tab.send = (method, params) => send(method, params, sessionId);
  for (const domain of ["Runtime", "Log", "Page", "Network"]) await tab.send(`${domain}.enable`);
  const features = [{ name: "prefers-color-scheme", value: scheme }];
  await tab.send("Emulation.setEmulatedMedia", { features });
  const screen = { width: 1280, height: 900, deviceScaleFactor: 1, mobile: false };
  await tab.send("Emulation.setDeviceMetricsOverride", screen);
  tab.go = async url => {
    const loaded = new Promise(done => (tab.loaded = done));
    await tab.send("Page.navigate", { url });
    await loaded;
  };
  tab.ask = async expression => {
    const said = await tab.send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
    if (said.exceptionDetails) throw new Error(thrown(said.exceptionDetails));
    return said.result.value;
  };
  tab.press = async (key, text) => {
    await tab.send("Input.dispatchKeyEvent", { type: text ? "keyDown" : "rawKeyDown", key, text });
    await tab.send("Input.dispatchKeyEvent", { type: "keyUp", key });
  };
  tab.close = () => send("Target.closeTarget", { targetId });
  return tab;
};

// Ready and painted: a frame was drawn after the page's script had run. Milliseconds since the navigation began.
const PAINTED = `new Promise(done => requestAnimationFrame(() => setTimeout(() => done(performance.now()))))`;
const OWN = `[...document.querySelectorAll("style, body > script:not([type])")]
  .reduce((n, e) => n + e.textContent.length, 0)`;
const SHOWN = "[...document.querySelectorAll('table[data-t] tbody tr')].filter(r => !r.hidden).length";

// Everything inside the page that a click or a slider does, as numbers.
const inside = () => {
  const plots = document.querySelectorAll("figure svg").length;
  const seen = { plots, drawings: 0, sliders: 0, places: 0, redrawn: 0, cells: 0, said: 0, sorted: 0, tables: 0,
    columns: [], told: 0 };
  for (const fig of document.querySelectorAll("figure.by")) {
    seen.drawings++;
    for (const cell of [...fig.querySelectorAll("button.c")].slice(0, 3)) {
      cell.click();
      seen.cells++;
      const pressed = fig.querySelectorAll("[aria-pressed=true]").length === 1;
      if (pressed && fig.querySelector(".det").textContent.length > 8) seen.said++;
    }
    const range = fig.querySelector("input[type=range]");
    if (!range) continue;
    seen.sliders++;
    const drawn = new Set();
    for (let v = 0; v <= +range.max; v++) {
      range.value = v;
      range.dispatchEvent(new Event("input"));
      seen.places++;
      if (range.getAttribute("aria-valuetext")?.includes("into a line")) seen.told++;
      drawn.add(fig.querySelector(".lines").innerHTML);
      const spans = [...fig.querySelectorAll(".row .c")].map(c => +c.style.gridColumn.split("span")[1]);
      if (seen.sliders === 1) seen.columns.push(spans.reduce((a, b) => a + b, 0));
    }
    if (drawn.size > 1) seen.redrawn++;
  }
  const number = c => parseFloat(c.textContent.replace(/[<~,]/g, ""));
  for (const table of document.querySelectorAll("table[data-t]")) {
    seen.tables++;
    const heads = [...table.tHead.rows[0].cells], at = Math.max(0, heads.findIndex(h => h.classList.contains("r")));
    const button = heads[at].querySelector("button");
    const column = () => [...table.tBodies[0].rows].map(r => number(r.cells[at])).filter(n => !Number.isNaN(n));
    button?.click();
    const down = column().every((n, i, all) => !i || all[i - 1] >= n);
    button?.click();
    const up = column().every((n, i, all) => !i || all[i - 1] <= n);
    if (!button || (down && up)) seen.sorted++;
  }
  return seen;
};

// What the keyboard does, by real key events.
const keyboard = async tab => {
  const before = await tab.ask(SHOWN);
  await tab.press("/", "/");
  const found = await tab.ask("document.activeElement?.id");
  for (const c of "qqzz") await tab.press(c, c);
  const filtered = await tab.ask(SHOWN);
  await tab.press("Escape");
  const after = await tab.ask(SHOWN);
  await tab.press("j", "j");
  const focused = await tab.ask("document.activeElement?.className");
  return { focusesFilter: found === "q", rows: before, filtered, restored: after >= before, next: focused === "an" };
};

// The last heading of the page, opened by its link.
const linked = async (tab, url) => {
  const id = await tab.ask("[...document.querySelectorAll('section[id]')].at(-1)?.id ?? ''");
  if (!id) return null;
  await tab.go("about:blank");
  await tab.go(`${url}#${encodeURIComponent(id)}`);
  const top = await tab.ask("document.querySelector(':target')?.getBoundingClientRect().top ?? 1e9");
  return top >= -5 && top < 900;
};

const look = async (page, scheme) => {
  const url = `file://${page}`, tab = await open(scheme);
  await tab.go(url);
  const opened_ms = Math.round(await tab.ask(PAINTED));
  const own = await tab.ask(OWN);
  const said = { page: basename(page), scheme, opened_ms, own_bytes: own };
  said.ready = await tab.ask("document.body.dataset.ready === '1'");
  said.background = await tab.ask("getComputedStyle(document.body).backgroundColor");
  if (given.pictures) {
    const { data } = await tab.send("Page.captureScreenshot", { captureBeyondViewport: true });
    writeFileSync(join(given.pictures, `${basename(page, ".html")}.${scheme}.png`), Buffer.from(data, "base64"));
  }
  const again = checked.has(`${scheme} ${page}`);
  checked.add(`${scheme} ${page}`);
  const check = async () => {
    if (!axe || again) return [];
    await tab.ask(`${axe};0`);
    const of = "({ id, nodes }) => `${id}: ${nodes.length}, ${nodes[0].html.slice(0, 120)}`";
    return tab.ask(`axe.run(document, { resultTypes: ["violations"] }).then(r => r.violations.map(${of}))`);
  };
  said.violations = await check();
  said.evil = await tab.ask("document.body.dataset.evil === '1' || !!document.querySelector('main img')");
  said.wide = await tab.ask("document.documentElement.scrollWidth - document.documentElement.clientWidth");
  Object.assign(said, await tab.ask(`(${inside})()`), await keyboard(tab));
  // Details, pressed cells and sorted columns are read aloud, too.
  await tab.ask("document.querySelectorAll('details').forEach(d => (d.open = true)), 0");
  said.violations.push(...(await check()));
  said.linked = await linked(tab, url);
  said.errors = tab.errors;
  said.foreign = tab.requests.filter(r => !r.startsWith(url) && r !== "about:blank");
  await tab.close();
  return said;
};

try {
  for (const page of given.pages) {
    for (const scheme of ["light", "dark"]) console.log(JSON.stringify(await look(page, scheme)));
  }
  end(0);
} catch (e) {
  fail(e.stack);
}
