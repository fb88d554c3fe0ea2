const { trials } = facts;
const hasValue = (t) => t.objective !== null;
// A search may have several training job definitions, each with a space and an objective of its own.
const definitions = facts.definitions.map((d, index) => ({
  ...d,
  sign: d.isMaximized ? -1 : 1,
  trials: trials.filter((t) => t.definition === index),
}));
const areSeveral = definitions.length > 1;
const areComparable = definitions.every((d) => d.metric === definitions[0].metric && d.sign === definitions[0].sign);
const defined = (t) => definitions[t.definition];
const isBest = (t) => defined(t).best === t.number;


function show(value) {
  if (!isNumber(value)) return value === null || value === undefined ? "–" : String(value);
  const size = Math.abs(value);
  if (value !== 0 && (size < 1e-3 || size >= 1e5)) return value.toExponential(2).replace("e+", "e");
  return String(+value.toPrecision(4));
}
const shown = (text) => (text !== undefined && text !== "" && isFinite(text) ? show(+text) : text);

// Better trials are drawn nearer to the accent, by rank: one bad value must not fade all others.
const rank = new Map();
for (const group of areComparable ? [trials] : definitions.map((d) => d.trials)) {
  const order = group.filter(hasValue).sort((a, b) => defined(a).sign * (a.objective - b.objective));
  order.forEach((t, i) => rank.set(t.number, order.length > 1 ? i / (order.length - 1) : 0));
}
const color = (t) => {
  if (!rank.has(t.number)) return "var(--far)";
  return `color-mix(in oklab, var(--best) ${Math.round(100 * (1 - rank.get(t.number)) ** 1.6)}%, var(--far))`;
};
const title = (node, t) => add(node, "title", {}, [`trial ${t.number}, ${t.state}: ${defined(t).metric} ${show(t.objective)}`,
  ...defined(t).parameters.map((p) => `${p.name} = ${shown(t.values[p.name])}`)].join("\n"));

// A few diverged trials must not flatten the others: the axis ends where the bulk does.
function makeRange(values, sign) {
  const sorted = values.filter(isNumber).sort((a, b) => a - b);
  if (!sorted.length) return [0, 1];
  const at = (share) => sorted[Math.round(share * (sorted.length - 1))];
  let low = sorted[0], high = sorted[sorted.length - 1];
  const bulk = at(0.9) - at(0.1) || high - low;
  if (sign > 0) high = Math.min(high, at(0.9) + 1.5 * bulk); else low = Math.max(low, at(0.1) - 1.5 * bulk);
  const pad = (high - low) * 0.05 || Math.abs(high) * 0.05 || 1;
  return [low - pad, high + pad];
}

function makeChart(parent, width, height, [low, high], left = 56) {
  const svg = add(parent, "svg", { viewBox: `0 0 ${width} ${height}` });
  const y = (v) => 10 + (height - 38) * (1 - (Math.min(Math.max(v, low), high) - low) / (high - low));
  for (const tick of makeTicks(low, high, 4)) {
    add(svg, "line", { x1: left, x2: width - 8, y1: y(tick), y2: y(tick), class: "grid" });
    add(svg, "text", { x: left - 6, y: y(tick) + 4, class: "end" }, show(tick));
  }
  return { svg, y, left, right: width - 8, bottom: height - 30 };
}

function mark(parent, t, attributes) {
  const node = add(parent, "circle", { r: 4, fill: color(t), stroke: "var(--card)", class: "mark", "data-trial": t.number, ...attributes });
  if (t.state !== "Completed") { node.setAttribute("fill", "var(--card)"); node.setAttribute("stroke", color(t)); node.setAttribute("stroke-width", 2); }
  title(node, t);
}

// Comparable definitions have the same scale.
const objectives = (d) => makeRange((areComparable ? trials : d.trials).map((t) => t.objective), d.sign);

function drawHistory(parent, d, trials) {
  const valued = trials.filter(hasValue), sign = d.sign;
  const { svg, y, left, right, bottom } = makeChart(parent, 1000, 300, objectives(d));
  const last = Math.max(...trials.map((t) => t.number), 2);
  const x = (n) => left + 10 + (right - left - 20) * (n - 1) / (last - 1);
  let reached = null, path = "";
  for (const t of [...valued].sort((a, b) => a.number - b.number)) {
    if (reached !== null && sign * (t.objective - reached) >= 0) continue;
    path += reached === null ? `M${x(t.number)} ${y(t.objective)}` : `H${x(t.number)}V${y(t.objective)}`;
    reached = t.objective;
  }
  if (path) add(svg, "path", { d: `${path}H${x(last)}`, class: "line", stroke: "var(--best)", "stroke-width": 2 });
  for (const t of valued) mark(svg, t, { cx: x(t.number), cy: y(t.objective) });
  for (const t of trials) if (t.objective === null) add(svg, "text", { x: x(t.number), y: bottom - 2, class: "middle" }, t.state === "Failed" ? "×" : "·");
  for (const n of makeTicks(1, last, 4).filter((n) => Number.isInteger(n) && n > 0)) add(svg, "text", { x: x(n), y: bottom + 14, class: "middle" }, n);
  add(svg, "text", { x: right, y: bottom + 28, class: "end" }, "trial");
}

function drawImportance(parent, d) {
  const rows = d.importance;
  if (!rows.length) return void (parent.textContent = "Too few finished trials to estimate it.");
  const height = 26 * rows.length + 26, left = 130;
  const svg = add(parent, "svg", { viewBox: `0 0 460 ${height}` });
  const most = Math.max(...rows.map((r) => r.high), 0.05), x = (v) => left + (430 - left) * v / most;
  rows.forEach((row, i) => {
    const y = 8 + 26 * i;
    add(svg, "text", { x: left - 8, y: y + 13, class: "end name" }, clip(row.name, 18));
    const bar = add(svg, "rect", { x: left, y, width: Math.max(x(row.share) - left, 1), height: 17, rx: 3, class: "bar" });
    add(bar, "title", {}, `${row.name}: ${show(row.share)} (${show(row.low)} to ${show(row.high)})`);
    add(svg, "line", { x1: x(row.low), x2: x(row.high), y1: y + 8.5, y2: y + 8.5, class: "whisker" });
    for (const end of [row.low, row.high]) add(svg, "line", { x1: x(end), x2: x(end), y1: y + 4, y2: y + 13, class: "whisker" });
  });
  add(svg, "text", { x: left, y: height - 6 }, "share of the variance; lines: 80 % of resamplings");
}

function drawCurves(parent, d) {
  const drawn = d.trials.filter((t) => t.curve.length > 1);
  if (!drawn.length) return void (parent.textContent = "No trial reported more than one value.");
  const { svg, y, left, right, bottom } = makeChart(parent, 460, 280, makeRange(drawn.flatMap((t) => t.curve.map((p) => p[1])), d.sign));
  const last = Math.max(...drawn.map((t) => t.epochs)), x = (e) => left + 6 + (right - left - 12) * (e - 1) / Math.max(last - 1, 1);
  const sorted = [...drawn].sort((a, b) => (rank.get(b.number) ?? 2) - (rank.get(a.number) ?? 2));
  for (const t of sorted) {
    const known = t.curve.filter((p) => p[1] !== null);
    const path = known.map(([e, v], i) => `${i ? "L" : "M"}${x(e).toFixed(1)} ${y(v).toFixed(1)}`).join("");
    const line = add(svg, "path", { d: path, class: "line mark", stroke: color(t), "stroke-width": isBest(t) ? 2.5 : 1.3, "data-trial": t.number });
    if (t.state === "Paused" || t.state === "Stopped") line.setAttribute("stroke-dasharray", t.state === "Paused" ? "5 3" : "2 2");
    title(line, t);
  }
  for (const e of makeTicks(1, Math.max(last, 2), 4).filter(Number.isInteger)) add(svg, "text", { x: x(e), y: bottom + 14, class: "middle" }, e);
  add(svg, "text", { x: right, y: bottom + 28, class: "end" }, "epoch");
}

// Ends of an axis in words, for numbers and categories.
const ends = (p) => (p.values ? [p.values[0], p.values[p.values.length - 1]] : [show(p.low), show(p.high)]);

function drawParallel(parent, d) {
  const { parameters, metric } = d, valued = d.trials.filter(hasValue);
  const svg = add(parent, "svg", { viewBox: "0 0 1000 340" });
  const [low, high] = objectives(d);
  const x = (i) => 60 + 880 * i / parameters.length, y = (place) => 300 - 250 * place;
  const place = (v) => (Math.min(Math.max(v, low), high) - low) / (high - low);
  for (const t of [...valued].sort((a, b) => rank.get(b.number) - rank.get(a.number))) {
    if (t.places.includes(null)) continue;
    const points = [...t.places.map((u, i) => [x(i), y(u)]), [x(parameters.length), y(place(t.objective))]];
    const path = points.map(([a, b], i) => `${i ? "L" : "M"}${a.toFixed(1)} ${b.toFixed(1)}`).join("");
    title(add(svg, "path", { d: path, class: "line mark", stroke: color(t), "stroke-width": isBest(t) ? 3 : 1.4, "data-trial": t.number }), t);
  }
  [...parameters, { name: metric, low, high }].forEach((p, i) => {
    const [bottom, top] = ends(p), most = Math.floor(130 / (parameters.length + 1));
    add(svg, "line", { x1: x(i), x2: x(i), y1: y(0), y2: y(1), class: "axis" });
    add(add(svg, "text", { x: x(i), y: 20, class: "middle name" }, clip(p.name, most)), "title", {}, p.name);
    if (p.values && p.values.length <= 12) {
      p.values.forEach((value, k) => add(svg, "text", { x: x(i) + 5, y: y((k + 0.5) / p.values.length) + 4, class: "outlined" }, clip(value, most)));
    } else {
      add(svg, "text", { x: x(i), y: 40, class: "middle" }, clip(top, most));
      add(svg, "text", { x: x(i), y: 318, class: "middle" }, clip(bottom, most));
    }
  });
}

function drawScatter(parent, d) {
  const range = objectives(d), valued = d.trials.filter(hasValue);
  d.parameters.forEach((p, i) => {
    const card = document.createElement("div");
    card.className = "card";
    parent.append(card);
    const { svg, y, left, right, bottom } = makeChart(card, 320, 210, range, 50);
    const x = (u) => left + 8 + (right - left - 16) * u;
    for (const t of valued) if (t.places[i] !== null) mark(svg, t, { cx: x(t.places[i]), cy: y(t.objective), r: 3.5 });
    if (p.values && p.values.length <= 8) {
      p.values.forEach((value, k) => add(svg, "text", { x: x((k + 0.5) / p.values.length), y: bottom + 13, class: "middle" }, clip(value, Math.floor(42 / p.values.length))));
    } else {
      add(svg, "text", { x: left + 4, y: bottom + 13 }, ends(p)[0]);
      add(svg, "text", { x: right, y: bottom + 13, class: "end" }, ends(p)[1]);
    }
    add(svg, "text", { x: (left + right) / 2, y: bottom + 26, class: "middle name" }, clip(p.name + (p.scaling && p.scaling !== "Linear" ? ` (${p.scaling})` : ""), 44));
  });
}

const objectiveName = areComparable ? definitions[0].metric : "objective";
const names = [...new Set(definitions.flatMap((d) => d.parameters.map((p) => p.name)))];
let sortedBy = objectiveName, ascending = definitions[0].sign > 0;
function drawTable() {
  const columns = [["trial", (t) => t.number], ["state", (t) => t.state], [objectiveName, (t) => t.objective], ["epochs", (t) => t.epochs],
    ...names.map((name) => [name, (t) => { const v = t.values[name]; return v !== undefined && v !== "" && isFinite(v) ? +v : v; }])];
  if (areSeveral) columns.splice(1, 0, ["definition", (t) => defined(t).name]);
  if (trials.some((t) => t.job)) columns.push(["job", (t) => t.job]);
  const head = $("table").tHead, body = $("table").tBodies[0];
  const key = (columns.find(([name]) => name === sortedBy) || columns[2])[1];
  head.replaceChildren(); body.replaceChildren();
  const row = head.insertRow();
  for (const [name] of columns) {
    const cell = document.createElement("th");
    cell.textContent = name === sortedBy ? `${name} ${ascending ? "↑" : "↓"}` : name;
    cell.onclick = () => { ascending = sortedBy === name ? !ascending : true; sortedBy = name; drawTable(); };
    row.append(cell);
  }
  const missing = (v) => v === null || v === undefined;
  const compare = (a, b) => (missing(a) || missing(b) ? missing(a) - missing(b) : (a < b ? -1 : a > b ? 1 : 0) * (ascending ? 1 : -1));
  for (const t of [...trials].sort((a, b) => compare(key(a), key(b)) || a.number - b.number)) {
    const line = body.insertRow();
    line.dataset.trial = t.number;
    for (const [, get] of columns) {
      const cell = line.insertCell(), value = get(t);
      cell.textContent = show(value);
      if (isNumber(value)) cell.className = "number";
    }
  }
  highlight();
}

let chosen = null;
function highlight() {
  for (const node of document.querySelectorAll("[data-trial]")) {
    const isChosen = node.dataset.trial === chosen;
    node.classList.toggle("chosen", isChosen);
    node.classList.toggle("chosen-mark", isChosen && node.tagName !== "TR");
    node.classList.toggle("faded", chosen !== null && !isChosen && node.tagName === "path");
  }
}
document.addEventListener("click", (event) => {
  const node = event.target.closest("[data-trial]");
  if (!node && !event.target.closest("svg")) return;
  chosen = node && node.dataset.trial !== chosen ? node.dataset.trial : null;
  highlight();
});

const counts = {};
for (const t of trials) counts[t.state] = (counts[t.state] || 0) + 1;
const aims = [...new Set(definitions.map((d) => `${d.isMaximized ? "maximizes" : "minimizes"} ${d.metric}`))];
$("lead").textContent = [`${facts.strategy} search that ${aims.join(", ")}`,
  `${trials.length} trials (${Object.entries(counts).map(([s, n]) => `${n} ${s.toLowerCase()}`).join(", ") || "none yet"})`,
  facts.state].filter(Boolean).join(" · ");
for (const d of definitions) {
  const best = d.trials.find(isBest), line = document.createElement("p");
  line.className = "soft";
  line.textContent = (areSeveral ? `${d.name}: ` : "") + (best ? `best is trial ${best.number} with ${d.metric} ${show(best.objective)} (${d.parameters.map((p) => `${p.name} = ${shown(best.values[p.name])}`).join(", ")})` : "no trial has an objective yet.");
  $("winners").append(line);
}

const part = (parent, name) => parent.querySelector(`[data-part="${name}"]`);
const copy = (template, parent) => parent.append($(template).content.cloneNode(true));
if (areSeveral && areComparable && trials.some(hasValue)) {
  copy("history", $("overview"));
  drawHistory(part($("overview"), "history"), definitions[0], trials);
}
for (const d of definitions.filter((d) => d.trials.some(hasValue))) {
  const block = document.createElement("section");
  if (areSeveral) {
    block.className = "definition";
    block.append(document.createElement("h2"));
    block.firstChild.textContent = `Definition ${d.name}`;
  }
  $("definitions").append(block);
  if (!areSeveral || !areComparable) {
    copy("history", block);
    drawHistory(part(block, "history"), d, d.trials);
  }
  copy("charts", block);
  drawImportance(part(block, "importance"), d);
  drawCurves(part(block, "curves"), d);
  drawParallel(part(block, "parallel"), d);
  drawScatter(part(block, "scatter"), d);
}
drawTable();
