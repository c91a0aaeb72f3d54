// The status page: reads api/v1/status twice a second and shows it. Text is only ever set as text.

const PERIOD_MS = 500;
const TIMEOUT_MS = 3000;
const UNKNOWN = "–";

const byId = (id) => document.getElementById(id);

function element(tag, className = "", text = "") {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text) node.textContent = text;
  return node;
}

// --- numbers ------------------------------------------------------------------------------------

function number(value, unit = "", digits = 1) {
  if (value === null || value === undefined) return UNKNOWN;
  const text = value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  return unit ? `${text}\u202f${unit}` : text;
}

const count = (value) => number(value, "", 0);

function duration(seconds) {
  if (seconds === null || seconds === undefined) return UNKNOWN;
  if (seconds < 1) return number(1e3 * seconds, "ms", 0);
  if (seconds < 120) return number(seconds, "s", 1);
  if (seconds < 7200) return number(seconds / 60, "min", 0);
  return number(seconds / 3600, "h", 1);
}

function smallTime(ns) {
  if (ns === null || ns === undefined) return UNKNOWN;
  return Math.abs(ns) < 1e6 ? number(ns / 1e3, "µs", 0) : Math.abs(ns) < 1e9 ? number(ns / 1e6, "ms", 2) : number(ns / 1e9, "s", 3);
}

function counters(counts) {
  const some = Object.entries(counts).filter(([, value]) => value > 0);
  return some.map(([name, value]) => `${name} ${count(value)}`).join(", ");
}

const plain = (key, value) => (typeof value === "number" && !Number.isInteger(value) ? Number(value.toPrecision(4)) : value);

function facts(entries) {
  return Object.entries(entries)
    .filter(([, value]) => value !== null && value !== "")
    .map(([name, value]) => `${name}: ${Array.isArray(value) ? value.join(", ") : typeof value === "object" ? JSON.stringify(value, plain) : plain(name, value)}`)
    .join(" · ");
}

// --- states: a colour always comes with its word and its shape ------------------------------------

const STATE_CLASS = {
  running: "good", starting: "", waiting: "fair", retrying: "bad", stopped: "",
  tracked: "good", coasting: "fair", stale: "poor", frozen: "bad", lost: "bad",
};

const state = (word) => ({ text: word, className: `badge ${STATE_CLASS[word] ?? ""}`, inner: true });
const right = (text) => ({ text, className: "number" });
const quiet = (text) => ({ text, className: "quiet" });
const long = (text) => ({ text, className: "long" });
const detail = (text, span) => [{ text, className: "long", span }];

// --- tables: cells are changed in place, so that a selection or a scroll position survives --------

function setCell(cell, value) {
  const { text = "", className = "", inner = false, bar = null, span = 1 } = typeof value === "object" ? value : { text: value };
  const outer = inner ? "" : className;
  if (cell.className !== outer) cell.className = outer;
  if (cell.colSpan !== span) cell.colSpan = span;
  let target = cell;
  if (inner || bar !== null) {
    target = cell.firstElementChild ?? cell.appendChild(element("span"));
    const wanted = bar === null ? className : "bar";
    if (target.className !== wanted) target.className = wanted;
    if (bar !== null) target.style.width = `${bar}%`;
  }
  if (target.textContent !== text) target.textContent = text;
}

/** Rows of components, each followed by a line in words where there is something to say. */
function withDetails(rows, width) {
  return rows.flatMap(([cells, words]) => (words ? [cells, detail(words, width)] : [cells]));
}

function setTable(id, columns, rows) {
  const table = byId(id);
  const message = document.querySelector(`.empty[data-for="${id}"]`);
  message.hidden = rows.length > 0;
  if (rows.length === 0) {
    table.replaceChildren();
    return;
  }
  if (!table.tHead) {
    const head = table.createTHead().insertRow();
    for (const [title, className] of columns) {
      const th = element("th", className, title);
      th.scope = "col";
      head.append(th);
    }
    table.createTBody();
  }
  const body = table.tBodies[0];
  while (body.rows.length > rows.length) body.deleteRow(-1);
  rows.forEach((cells, index) => {
    const row = body.rows[index] ?? body.insertRow();
    row.className = cells.length === 1 ? "detail" : "";
    while (row.cells.length > cells.length) row.deleteCell(-1);
    cells.forEach((value, column) => setCell(row.cells[column] ?? row.insertCell(), value));
  });
}

function setFacts(list, pairs) {
  const text = JSON.stringify(pairs);
  if (list.dataset.shown === text) return;
  list.dataset.shown = text;
  list.replaceChildren(
    ...pairs.map(([term, value]) => {
      const group = element("div");
      group.append(element("dt", "", term), element("dd", "", value));
      return group;
    }),
  );
}

// --- sections -----------------------------------------------------------------------------------

function since(report, now) {
  return duration((now.t_ns - report.since_ns) / 1e9);
}

function explain(report) {
  const parts = [report.reason, counters(report.counters), report.reason ? "" : facts(report.facts)];
  if (report.last_error && report.last_error !== report.reason) parts.push(`last error: ${report.last_error}`);
  return parts.filter(Boolean).join(" · ");
}

function showSources(now) {
  const columns = [["name"], ["type"], ["state"], ["since", "number"], ["rate", "number"], ["age", "number"], ["clock offset", "number"], ["±", "number"], ["drift", "number"]];
  setTable("sources", columns, withDetails(Object.entries(now.sources).map(([name, source]) => [[
    { text: name, className: "strong" },
    quiet(source.type),
    state(source.report.state),
    right(since(source.report, now)),
    right(number(source.rate_hz, "Hz")),
    right(duration(source.age_s)),
    right(smallTime(source.clock.offset_ns)),
    right(smallTime(source.clock.uncertainty_ns)),
    right(number(source.clock.drift_ppm, "ppm")),
  ], explain(source.report)]), columns.length));
}

function explainActor(actor) {
  const seen = counters(actor.seen);
  return [actor.problem, `tracked as ${actor.subject} of ${actor.source}`, seen && `has been ${seen}`].filter(Boolean).join(" · ");
}

function showActors(now) {
  const columns = [["name"], ["kind"], ["state"], ["age", "number"], ["x", "number"], ["y", "number"], ["z", "number"], ["speed", "number"], ["IMU late by", "number"]];
  setTable("actors", columns, withDetails(Object.entries(now.actors).map(([name, actor]) => [[
    { text: name, className: "strong" },
    actor.kind,
    state(actor.state),
    right(duration(actor.age_s)),
    ...[0, 1, 2].map((axis) => right(number(actor.p_world_m?.[axis], "m", 2))),
    right(number(actor.speed_mps, "m/s", 2)),
    right(actor.imu ? number(1e3 * actor.imu.late_s, "ms") : ""),
  ], explainActor(actor)]), columns.length));
}

function showRenderers(now) {
  const columns = [["name"], ["state"], ["since", "number"], ["in flight", "number"], ["pictures", "number"], ["time", "number"], ["busy", "number"], ["draws"], ["protocol"]];
  setTable("renderers", columns, withDetails(Object.entries(now.renderers).map(([name, renderer]) => [[
    { text: name, className: "strong" },
    state(renderer.report.state),
    right(since(renderer.report, now)),
    right(count(renderer.in_flight)),
    right(number(renderer.pictures_hz, "Hz")),
    right(number(renderer.render_ms, "ms")),
    right(number(100 * renderer.utilisation, "%", 0)),
    renderer.cameras.join(", ") || quiet("stands by"),
    quiet(renderer.type),
  ], explain(renderer.report)]), columns.length));
}

function showOutputs(now) {
  const columns = [["name"], ["state"], ["since", "number"], ["kind"], ["events"]];
  setTable("outputs", columns, withDetails(Object.entries(now.outputs).map(([name, output]) => [[
    { text: name, className: "strong" },
    state(output.report.state),
    right(since(output.report, now)),
    quiet(output.type),
    quiet(counters(output.report.counters)),
  ], explain(output.report)]), columns.length));
}

function showLatency(now) {
  const columns = [["camera"], ["stage"], ["p50, last 10 s", "share"], ["p50", "number"], ["p95", "number"], ["p99", "number"], ["max", "number"], ["since start: p50", "number"], ["p95", "number"], ["p99", "number"], ["max", "number"], ["count", "number"]];
  const rows = [];
  for (const [camera, view] of Object.entries(now.cameras)) {
    const stages = Object.entries(view.latency);
    const longest = Math.max(...stages.map(([, stage]) => stage.last_10_s.p50_ms ?? 0), 1e-9);
    stages.forEach(([name, { last_10_s: recent, since_start: total }], index) => rows.push([
      { text: index === 0 ? camera : "", className: "strong" },
      name,
      { bar: recent.p50_ms === null ? 0 : (100 * recent.p50_ms) / longest },
      ...[recent.p50_ms, recent.p95_ms, recent.p99_ms, recent.max_ms].map((value) => right(number(value, "ms", 2))),
      ...[total.p50_ms, total.p95_ms, total.p99_ms, total.max_ms].map((value) => ({ text: number(value, "ms", 2), className: "number quiet" })),
      right(count(total.count)),
    ]));
  }
  setTable("latency", columns, rows);
}

function showStreams(now) {
  const columns = [["stream"], ["camera"], ["sent", "number"], ["dropped"], ["readers", "number"], ["who"]];
  setTable("streams", columns, Object.entries(now.streams).map(([name, stream]) => [
    { text: name, className: "strong" },
    stream.camera,
    right(count(stream.frames)),
    quiet(counters(stream.dropped) || "none"),
    right(count(stream.subscribers.length)),
    long(stream.subscribers.map(facts).join(" | ") || "nobody: run client.py on the vehicle"),
  ]));
}

function newCamera(name) {
  const card = element("article", "camera");
  card.dataset.camera = name;
  const title = element("h3");
  title.append(element("span", "", name), element("small"));
  const picture = element("div", "picture");
  const image = element("img");
  image.alt = `newest picture of ${name}`;
  image.hidden = true;
  image.addEventListener("load", () => { image.hidden = false; image.dataset.busy = ""; });
  image.addEventListener("error", () => { image.hidden = true; image.dataset.busy = ""; });
  picture.append(element("span", "", "no picture yet"), image);
  card.append(title, picture, element("dl", "facts"));
  return card;
}

function cameraFacts(camera) {
  const warp = camera.compensation;
  const pairs = [
    ["rate", `${number(camera.measured_hz, "", 1)} of ${number(camera.rate_hz, "Hz", 0)}`],
    ["in flight", count(camera.in_flight)],
    ["dropped", counters(camera.dropped) || "none"],
  ];
  if (warp) {
    pairs.push(["warp", warp.method]);
    if (warp.angle_rad !== null) pairs.push(["angle", number((warp.angle_rad * 180) / Math.PI, "°", 2)]);
    if (warp.d_m !== null) pairs.push(["plane", number(warp.d_m, "m")]);
    if (warp.valid_fraction !== null) pairs.push(["filled", number(100 * warp.valid_fraction, "%")]);
    if (warp.horizon_ns !== null) pairs.push(["predicted", smallTime(warp.horizon_ns)]);
    if (warp.imu_age_ns !== null) pairs.push(["IMU age", smallTime(warp.imu_age_ns)]);
  }
  if (camera.range_m !== null) pairs.push(["range", number(camera.range_m, "m", 2)]);
  if (camera.landmarks.length) pairs.push(["beacons", count(camera.landmarks.length)]);
  if (camera.collision) pairs.push(["collision", "yes"]);
  return pairs;
}

function showCameras(now) {
  const holder = byId("cameras");
  const names = Object.keys(now.cameras);
  document.querySelector('.empty[data-for="cameras"]').hidden = names.length > 0;
  for (const card of [...holder.children]) if (!(card.dataset.camera in now.cameras)) card.remove();
  for (const name of names) {
    const camera = now.cameras[name];
    const card = [...holder.children].find((c) => c.dataset.camera === name) ?? holder.appendChild(newCamera(name));
    const subtitle = `on ${camera.actor}, ${camera.width_px}×${camera.height_px}, ${camera.modalities.join(" + ")}, drawn by ${camera.renderer} (${camera.assigned})`;
    setCell(card.querySelector("small"), subtitle);
    setFacts(card.querySelector("dl"), cameraFacts(camera));
    const image = card.querySelector("img");
    if (!image.dataset.busy) {
      image.dataset.busy = "yes";
      image.src = `api/v1/cameras/${encodeURIComponent(name)}/preview.jpg?at=${now.t_ns}`;
    }
  }
}

function showHeader(now) {
  byId("name").textContent = now.name;
  document.title = `${now.ready ? "●" : "◐"} ${now.name}`;
  const badge = byId("ready");
  const word = now.ready ? "ready" : "not ready";
  if (badge.textContent !== word) badge.textContent = word;
  badge.className = `badge ${now.ready ? "good" : "fair"}`;
  const pairs = [["version", now.version], ["up", duration(now.uptime_s)], ["loop lag", now.loop_lag_s === null ? UNKNOWN : smallTime(1e9 * now.loop_lag_s)]];
  if (now.simulation) pairs.push(["time", pace(now.simulation)]);
  setFacts(byId("facts"), pairs);
  setFacts(byId("startup"), Object.entries(now.startup).map(([name, value]) => [name, String(value)]));
  const notes = Object.entries(now.renderers).filter(([, renderer]) => renderer.note).map(([name, renderer]) => `renderer ${name} ${renderer.note}`);
  showNotice([...now.warnings.map((warning) => warning.text), ...now.not_ready_because, ...notes].join("\n"));
}

function pace(simulation) {
  if (simulation.paused) return "simulated, paused";
  return `simulated, ${simulation.reached.toFixed(2)} of ${simulation.speed} s per second`;
}

function showNotice(text) {
  const notice = byId("notice");
  if (notice.textContent !== text) notice.textContent = text;
  notice.hidden = text === "";
}

// --- polling ------------------------------------------------------------------------------------

let lostSince = null;

async function update() {
  try {
    const answer = await fetch("api/v1/status", { signal: AbortSignal.timeout(TIMEOUT_MS), cache: "no-store" });
    if (!answer.ok) throw new Error(`the bridge answers ${answer.status}`);
    const now = await answer.json();
    lostSince = null;
    for (const show of [showHeader, showCameras, showSources, showActors, showRenderers, showOutputs, showLatency, showStreams]) show(now);
  } catch (error) {
    lostSince ??= Date.now();
    const badge = byId("ready");
    badge.textContent = "no answer";
    badge.className = "badge bad";
    document.title = "✕ VIL Bridge";
    const ago = duration((Date.now() - lostSince) / 1000);
    showNotice(`The bridge has not answered for ${ago} (${error.message}); everything below is old. Is it still running? The page goes on by itself.`);
  }
}

async function run() {
  for (;;) {
    if (!document.hidden) await update();
    await new Promise((resolve) => setTimeout(resolve, PERIOD_MS));
  }
}

run();
