const runs = facts.runs.map((run, i) => ({ ...run, i, curves: facts.curves[i] || {} }));
const isMissing = (value) => value === null || value === undefined || value === "";

function show(value) {
  if (!isNumber(value)) return isMissing(value) ? "" : String(value);
  const size = Math.abs(value);
  if (value !== 0 && (size < 1e-3 || size >= 1e6)) return (+value.toPrecision(3)).toExponential().replace("e+", "e");
  return String(+value.toPrecision(5));
}
const clipLeft = (text, most) => (text.length > most ? "…" + text.slice(1 - most) : text);
const elapsed = (s) => (isMissing(s) ? "" : s < 90 ? `${s.toFixed(1)} s` : s < 5400 ? `${(s / 60).toFixed(1)} min` : `${(s / 3600).toFixed(1)} h`);
const moment = (s) => { const d = new Date(s * 1000 - new Date().getTimezoneOffset() * 60000); return d.toISOString().slice(0, 16).replace("T", " "); };

// ---- columns: facts first, then what differs between the runs
const isOwn = (name) => !/^(sagemaker_|SageMaker\.|_)/.test(name);
const names = (key) => [...new Set(runs.flatMap((r) => Object.keys(r[key])))];
const paramNames = names("params").filter(isOwn), metricNames = names("metrics");
const differs = (name) => new Set(runs.map((r) => String(r.params[name]))).size > 1;
const shownParams = (paramNames.some(differs) ? paramNames.filter(differs) : paramNames).slice(0, 12);
const columns = [
  { key: "name", label: "run", get: (r) => r.name }, { key: "experiment", label: "experiment", get: (r) => r.experiment },
  { key: "status", label: "status", get: (r) => r.status }, { key: "started", label: "started", get: (r) => r.started, show: moment },
  { key: "duration", label: "duration", get: (r) => r.duration, show: elapsed },
  ...shownParams.map((n) => ({ key: `params.${n}`, label: n, get: (r) => r.params[n] })),
  ...metricNames.slice(0, 12).map((n) => ({ key: `metrics.${n}`, label: n, get: (r) => (r.metrics[n] || [])[0], odd: (r) => (r.metrics[n] || [])[4] || "" })),
];
const axes = [
  ...paramNames.map((n) => ({ key: `params.${n}`, label: n, get: (r) => r.params[n] })),
  ...metricNames.flatMap((n) => [["last", 0], ["min", 1], ["max", 2]].map(([word, at]) => (
    { key: `metrics.${n}.${word}`, label: at ? `${n} (${word})` : n, isMetric: true, get: (r) => (r.metrics[n] || [])[at] }))),
  { key: "duration", label: "duration (s)", get: (r) => r.duration }, { key: "started", label: "started", get: (r) => r.started },
];

// ---- filter: comparisons joined by `and`; anything else is a text to look for
const COMPARE = { "<": (a, b) => a < b, "<=": (a, b) => a <= b, ">": (a, b) => a > b, ">=": (a, b) => a >= b, "=": (a, b) => a === b, "!=": (a, b) => a !== b };
function value(run, path) {
  const [group, ...rest] = path.split("."), name = rest.join(".");
  if (/^params?$/.test(group)) return run.params[name];
  if (/^tags?$/.test(group)) return run.tags[name];
  if (/^metrics?$/.test(group)) {
    if (run.metrics[name]) return run.metrics[name][0];
    const stem = name.replace(/\.(min|max|last)$/, ""), at = { min: 1, max: 2, last: 0 }[name.slice(stem.length + 1)];
    return at === undefined || !run.metrics[stem] ? undefined : run.metrics[stem][at];
  }
  return run[path];
}
function makeFilter(text) {
  const tests = [], parts = text.trim().split(/\s+and\s+/i).filter(Boolean);
  for (const part of parts) {
    const found = part.match(/^([\w.:\/ -]+?)\s*(<=|>=|!=|=|<|>)\s*(.+)$/);
    if (!found) { const low = part.toLowerCase(); tests.push((r) => JSON.stringify([r.name, r.run, r.experiment, r.status, r.params, r.tags]).toLowerCase().includes(low)); continue; }
    const [, path, sign, raw] = found, wanted = raw.replace(/^['"]|['"]$/g, "");
    tests.push((r) => {
      const have = value(r, path.trim());
      if (isMissing(have)) return false;
      const numbers = isFinite(have) && isFinite(wanted);
      return numbers ? COMPARE[sign](+have, +wanted) : COMPARE[sign](String(have), wanted);
    });
  }
  return (run) => tests.every((test) => test(run));
}

// ---- table
let sortedBy = null, ascending = false, open = null, shown = runs;
const selected = new Set(runs.slice(0, 10).map((r) => r.i));
const order = () => [...selected].sort((a, b) => a - b);
const colorOf = (i) => `var(--c${order().indexOf(i) % 10})`;
function drawTable() {
  const fits = makeFilter($("filter").value);
  shown = runs.filter(fits);
  if (sortedBy) {
    const get = columns.find((c) => c.key === sortedBy).get;
    shown.sort((a, b) => {
      const [x, y] = [get(a), get(b)];
      if (isMissing(x) || isMissing(y)) return isMissing(x) - isMissing(y);
      const way = isNumber(x) && isNumber(y) ? x - y : String(x).localeCompare(String(y));
      return ascending ? way : -way;
    });
  }
  const head = $("table").tHead, body = $("table").tBodies[0];
  head.replaceChildren(); body.replaceChildren();
  const row = head.insertRow();
  row.append(document.createElement("th"));
  for (const column of columns) {
    const cell = document.createElement("th");
    cell.textContent = clip(column.label, 28) + (column.key === sortedBy ? (ascending ? " ↑" : " ↓") : "");
    cell.title = column.label;
    if (!column.show && runs.some((r) => isNumber(column.get(r)))) cell.className = "number";
    cell.onclick = () => { ascending = sortedBy === column.key ? !ascending : false; sortedBy = column.key; drawTable(); };
    row.append(cell);
  }
  for (const run of shown.slice(0, 500)) {
    const line = body.insertRow(), box = document.createElement("input");
    line.classList.toggle("chosen", selected.has(run.i));
    box.type = "checkbox"; box.checked = selected.has(run.i); box.setAttribute("aria-label", `select ${run.name}`);
    box.onchange = () => { if (box.checked) selected.add(run.i); else selected.delete(run.i); drawAll(); };
    line.insertCell().append(box);
    for (const column of columns) {
      const cell = line.insertCell(), v = column.get(run);
      if (column.key === "name" && selected.has(run.i)) { const dot = document.createElement("i"); dot.className = "dot"; dot.style.background = colorOf(run.i); cell.append(dot); }
      const odd = column.odd ? column.odd(run) : "";  // NaN or infinity
      cell.append(odd || (column.show || show)(v));
      cell.title = isMissing(v) ? odd : String(v);
      if (column.key === "status") cell.className = run.status;
      if ((isNumber(v) || odd) && !column.show) cell.className = odd ? "number Failed" : "number";
    }
    line.onclick = (event) => { if (event.target !== box) { open = open === run.i ? null : run.i; drawTable(); } };
    if (open === run.i) addDetails(body.insertRow().insertCell(), run);
  }
  $("said").textContent = `${shown.length} of ${facts.total} runs${shown.length > 500 ? ", the first 500 are shown" : ""}; ${selected.size} selected`;
}
function addDetails(cell, run) {
  cell.colSpan = columns.length + 1; cell.className = "details";
  const put = (title, pairs) => {
    if (!pairs.length) return;
    const part = document.createElement("div"), bold = document.createElement("b");
    bold.textContent = `${title} `;
    part.append(bold, pairs.map(([k, v]) => `${k} = ${show(v)}`).join(" · "));
    cell.append(part);
  };
  put("run", [["name", run.run], ...(run.message ? [["message", run.message]] : [])]);
  put("parameters", Object.entries(run.params));
  put("metrics", Object.entries(run.metrics).map(([n, [last, low, high, count, odd]]) => [n, `${odd || show(last)} (${show(low)} to ${show(high)}, ${count} values)`]));
  put("made from", run.from.map(([kind, uri, hash]) => [kind, `${uri} ${hash.slice(0, 19)}`]));
  put("made", run.made); put("tags", Object.entries(run.tags));
}

// ---- charts
function makeLogTicks(low, high) {
  const ticks = [];
  for (let p = Math.floor(low); p <= Math.ceil(high); p++) for (const d of high - low > 3 ? [1] : [1, 2, 5]) ticks.push(Math.log10(d) + p);
  return ticks.filter((t) => t >= low - 1e-9 && t <= high + 1e-9);
}
function pad([low, high]) { const room = (high - low) * 0.05 || Math.abs(high) * 0.05 || 1; return [low - room, high + room]; }
// As wide as its card, so that texts keep their size on a phone.
const widthOf = (node, least = 320) => Math.max(least, Math.min(1000, node.clientWidth - 32));
const thin = (ticks, width) => ticks.filter((_, i) => i % Math.ceil(ticks.length / Math.floor(width / 75)) === 0);
const lastOf = (run, metric) => { const [last, , , , odd] = run.metrics[metric] || []; return odd || show(last); };
const empty = (node, text) => { const p = document.createElement("p"); p.className = "empty"; p.textContent = text; node.replaceChildren(p); };

// A scale of numbers, or of categories: place in 0…1, ticks with texts. It is logarithmic where
// the numbers span two powers of ten, as learning rates do.
function makeScale(values) {
  const known = values.filter((v) => !isMissing(v));
  if (known.every(isNumber)) {
    const least = Math.min(...known), most = Math.max(...known), isLog = least > 0 && most >= 100 * least;
    const [low, high] = pad(isLog ? [Math.log10(least), Math.log10(most)] : [least, most]);
    if (isLog) return { place: (v) => (Math.log10(v) - low) / (high - low), ticks: makeLogTicks(low, high).map((t) => [10 ** t, show(10 ** t)]) };
    return { place: (v) => (v - low) / (high - low), ticks: makeTicks(low, high, 6).map((t) => [t, show(t)]) };
  }
  const words = [...new Set(known.map(String))].sort();
  return { place: (v) => (words.indexOf(String(v)) + 0.5) / words.length, ticks: words.length > 20 ? [] : words.map((w) => [w, clip(w, 14)]) };
}
function smooth(points, weight) {
  let last = 0, scale = 0;  // without the bias towards the first value
  return points.map(([x, v]) => { last = last * weight + (1 - weight) * v; scale = scale * weight + (1 - weight); return [x, last / scale]; });
}
function drawCurves() {
  const metric = $("metric").value, weight = +$("smoothing").value, isLog = $("log").checked, node = $("curves");
  const drawn = order().map((i) => runs[i]).filter((r) => (r.curves[metric] || []).length);
  $("keys").replaceChildren();
  const fits = (v) => v !== null && (!isLog || v > 0), to = (v) => (isLog ? Math.log10(v) : v);
  const series = drawn.map((run) => {
    const all = run.curves[metric].filter(([, low, high]) => fits(low) && fits(high));
    return { run, band: all.map(([x, low, high]) => [x, to(low), to(high)]), line: smooth(all.map(([x, low, high]) => [x, (to(low) + to(high)) / 2]), weight) };
  }).filter((s) => s.line.length);
  if (!series.length) return empty(node, drawn.length ? "No value above zero: switch the log scale off." : "No selected run has a curve of this metric.");
  node.replaceChildren();
  const flat = series.flatMap((s) => s.band), xs = flat.map((p) => p[0]);
  const [low, high] = pad([Math.min(...flat.map((p) => p[1])), Math.max(...flat.map((p) => p[2]))]);
  const first = Math.min(...xs), last = Math.max(...xs, first + 1), left = 62, width = widthOf(node), right = width - 10, bottom = 320;
  const svg = add(node, "svg", { viewBox: `0 0 ${width} 360`, role: "img", "aria-label": `curves of ${metric}` });
  const x = (s) => left + (right - left) * (s - first) / (last - first), y = (v) => 12 + (bottom - 12) * (1 - (v - low) / (high - low));
  for (const t of isLog ? makeLogTicks(low, high) : makeTicks(low, high, 6)) {
    add(svg, "line", { x1: left, x2: right, y1: y(t), y2: y(t), class: "grid" });
    add(svg, "text", { x: left - 6, y: y(t) + 4, class: "end" }, show(isLog ? 10 ** t : t));
  }
  for (const t of thin(makeTicks(first, last, 6), width)) add(svg, "text", { x: x(t), y: bottom + 18, class: "middle" }, show(t));
  add(svg, "text", { x: right, y: bottom + 33, class: "end" }, "step");
  for (const { run, band, line } of series) {
    const color = colorOf(run.i), d = (points, at) => points.map((p, k) => `${k ? "L" : "M"}${x(p[0]).toFixed(1)} ${y(p[at]).toFixed(1)}`).join("");
    const back = [...band].reverse().map((p) => `L${x(p[0]).toFixed(1)} ${y(p[1]).toFixed(1)}`).join("");
    if (band.some((p) => p[2] > p[1]) || weight) add(svg, "path", { d: `${d(band, 2)}${back}Z`, fill: color, class: "band" });
    if (weight) add(svg, "path", { d: d(band.map(([s, a, b]) => [s, (a + b) / 2]), 1), class: "line", stroke: color, opacity: 0.3 });
    add(add(svg, "path", { d: d(line, 1), class: "line", stroke: color }), "title", {}, `${run.name}: ${metric} ${lastOf(run, metric)}`);
    if (line.length === 1) add(svg, "circle", { cx: x(line[0][0]), cy: y(line[0][1]), r: 4, fill: color });
    const key = document.createElement("span"), dot = document.createElement("i");
    dot.className = "key"; dot.style.background = color;
    key.append(dot, `${run.name} ${lastOf(run, metric)}`);
    $("keys").append(key);
  }
}
const axisOf = (id) => axes.find((axis) => axis.key === $(id).value);
const marked = () => (selected.size ? order().map((i) => runs[i]) : shown);
function drawScatter() {
  const ax = axisOf("x"), ay = axisOf("y"), node = $("scatter");
  const drawn = ax && ay ? shown.filter((r) => !isMissing(ax.get(r)) && !isMissing(ay.get(r))) : [];
  if (!drawn.length) return empty(node, "No run has both values.");
  node.replaceChildren();
  const sx = makeScale(drawn.map(ax.get)), sy = makeScale(drawn.map(ay.get)), left = 90, width = widthOf(node), right = width - 10, bottom = 320;
  const svg = add(node, "svg", { viewBox: `0 0 ${width} 360`, role: "img", "aria-label": `${ay.label} against ${ax.label}` });
  const x = (v) => left + (right - left) * sx.place(v), y = (v) => 12 + (bottom - 12) * (1 - sy.place(v));
  for (const [t, text] of sy.ticks) { add(svg, "line", { x1: left, x2: right, y1: y(t), y2: y(t), class: "grid" }); add(svg, "text", { x: left - 6, y: y(t) + 4, class: "end" }, text); }
  for (const [t, text] of thin(sx.ticks, width)) add(svg, "text", { x: x(t), y: bottom + 18, class: "middle" }, text);
  add(svg, "text", { x: right, y: bottom + 36, class: "end name" }, clip(ax.label, 60));
  add(svg, "text", { x: 4, y: 12, class: "name" }, clip(ay.label, 60));
  // The selected ones last: they are on top of the others.
  for (const run of [...drawn].sort((a, b) => selected.has(a.i) - selected.has(b.i))) {
    const isChosen = selected.has(run.i);
    const mark = add(svg, "circle", { cx: x(ax.get(run)), cy: y(ay.get(run)), r: isChosen ? 6 : 4, fill: isChosen ? colorOf(run.i) : "var(--far)", class: "mark" });
    add(mark, "title", {}, `${run.name}\n${ax.label} ${show(ax.get(run))}\n${ay.label} ${show(ay.get(run))}`);
    mark.onclick = () => { if (isChosen) selected.delete(run.i); else selected.add(run.i); drawAll(); };
  }
}
function drawParallel() {
  const by = axisOf("color"), node = $("parallel");
  const drawn = by ? shown.filter((r) => !isMissing(by.get(r))).slice(0, 500) : [];
  // An axis says something if most runs have the value, and not all of them the same one.
  const says = (a) => { const known = drawn.map(a.get).filter((v) => !isMissing(v)); return known.length * 2 > drawn.length && new Set(known.map(String)).size > 1; };
  const used = [...shownParams.map((n) => axes.find((a) => a.key === `params.${n}`)).filter(says).slice(0, 7), by].filter((a, i, all) => a && all.indexOf(a) === i);
  if (used.length < 2 || !drawn.length) return empty(node, "It needs runs with parameters and the chosen value.");
  node.replaceChildren();
  const width = widthOf(node, 120 * used.length);
  const svg = add(node, "svg", { viewBox: `0 0 ${width} 330`, role: "img", "aria-label": "parallel coordinates" });
  svg.style.minWidth = `${Math.min(width, 120 * used.length)}px`;
  const scales = used.map((a) => makeScale(drawn.map(a.get))), rank = makeScale(drawn.map(by.get));
  const x = (i) => 70 + (width - 170) * i / (used.length - 1), y = (u) => 290 - 230 * u;
  const color = (run) => `color-mix(in oklab, var(--accent) ${Math.round(100 * rank.place(by.get(run)))}%, var(--far))`;
  const sorted = [...drawn].sort((a, b) => rank.place(by.get(a)) - rank.place(by.get(b)));
  for (const run of sorted) {
    const points = used.map((a, i) => (isMissing(a.get(run)) ? null : [x(i), y(scales[i].place(a.get(run)))])).filter(Boolean);
    const d = points.map((p, i) => `${i ? "L" : "M"}${p[0].toFixed(1)} ${p[1].toFixed(1)}`).join("");
    const line = add(svg, "path", { d, class: "line mark", "stroke-width": selected.has(run.i) ? 2.5 : 1.2, opacity: selected.has(run.i) ? 1 : 0.5 });
    line.style.stroke = color(run);
    add(line, "title", {}, [run.name, ...used.map((a) => `${a.label} = ${show(a.get(run))}`)].join("\n"));
  }
  used.forEach((a, i) => {
    add(svg, "line", { x1: x(i), x2: x(i), y1: y(0), y2: y(1), class: "axis" });
    add(add(svg, "text", { x: x(i), y: 20, class: "middle name" }, clip(a.label, Math.floor(150 / used.length))), "title", {}, a.label);
    const most = Math.max(6, Math.floor(90 / used.length));
    for (const [t, text] of scales[i].ticks.slice(0, 10)) add(svg, "text", { x: x(i) + 5, y: y(scales[i].place(t)) + 4 }, clip(text, most));
  });
}

// ---- lineage: what runs were made from, the runs, what they made; equal things are one box
function drawLineage() {
  const node = $("lineage"), drawn = marked().slice(0, 25);
  const left = new Map(), right = new Map(), edges = [];
  const box = (map, key, kind, uri, more) => { if (!map.has(key)) map.set(key, { kind, uri, more, at: map.size }); return map.get(key); };
  drawn.forEach((run, i) => {
    for (const [kind, uri, hash] of run.from) edges.push([box(left, `${kind === "code" || kind === "image" ? kind : "data"}|${uri}|${hash}`, kind, uri, hash), i, true]);
    for (const [kind, uri] of run.made) edges.push([box(right, uri, kind === "SageMaker.ModelArtifact" ? "model" : kind, uri, ""), i, false]);
  });
  if (!edges.length) return empty(node, "The selected runs have no lineage.");
  node.replaceChildren();
  const rows = Math.max(left.size, right.size, drawn.length), height = rows * 46 + 20, w = 300;
  const svg = add(node, "svg", { viewBox: `0 0 1100 ${height}`, role: "img", "aria-label": "lineage" });
  const y = (at, count) => 10 + (rows - count) * 23 + at * 46 + 18, X = [10, 400, 790];
  for (const [item, i, isBefore] of edges) {
    const [x1, y1] = isBefore ? [X[0] + w, y(item.at, left.size)] : [X[1] + w, y(i, drawn.length)];
    const [x2, y2] = isBefore ? [X[1], y(i, drawn.length)] : [X[2], y(item.at, right.size)];
    add(svg, "path", { d: `M${x1} ${y1}C${x1 + 45} ${y1} ${x2 - 45} ${y2} ${x2} ${y2}`, class: "edge" });
  }
  const put = (x, cy, kind, uri, more, css) => {
    const group = add(svg, "g");
    add(group, "rect", { x, y: cy - 18, width: w, height: 36, rx: 6, class: `box ${css}` });
    add(group, "text", { x: x + 8, y: cy - 4, class: "name" }, clip(kind + (more ? `  ${more.slice(0, 15)}` : ""), 42));
    add(group, "text", { x: x + 8, y: cy + 12 }, clipLeft(uri, 40));
    add(group, "title", {}, `${kind} ${uri} ${more}`.trim());
  };
  for (const item of left.values()) put(X[0], y(item.at, left.size), item.kind, item.uri, item.more, "");
  for (const item of right.values()) put(X[2], y(item.at, right.size), item.kind, item.uri, "", "");
  drawn.forEach((run, i) => put(X[1], y(i, drawn.length), run.name, `${run.experiment} · ${run.status}`, "", "run"));
}

function drawAll() { drawTable(); drawCurves(); drawScatter(); drawParallel(); drawLineage(); }
function fill(id, options, chosen) {
  for (const { key, label } of options) { const option = document.createElement("option"); option.value = key; option.textContent = label; $(id).append(option); }
  if (chosen) $(id).value = chosen;
  $(id).onchange = drawAll;
}
const curved = metricNames.filter((n) => runs.some((r) => r.curves[n]));
fill("metric", curved.map((n) => ({ key: n, label: n })));
const firstMetric = axes.find((a) => a.isMetric), firstParam = shownParams.length ? `params.${shownParams[0]}` : "duration";
fill("x", axes, firstParam); fill("y", axes, firstMetric ? firstMetric.key : "duration"); fill("color", axes, firstMetric ? firstMetric.key : "duration");
$("filter").oninput = drawAll; $("smoothing").oninput = drawCurves; $("log").onchange = drawCurves;
$("all").onclick = () => { for (const run of shown.slice(0, 100)) selected.add(run.i); drawAll(); };
$("none").onclick = () => { selected.clear(); drawAll(); };
const counts = {};
for (const run of runs) counts[run.status || "unknown"] = (counts[run.status || "unknown"] || 0) + 1;
$("lead").textContent = [`${facts.total} runs in ${new Set(runs.map((r) => r.experiment)).size} experiments`, ...Object.entries(counts).map(([s, n]) => `${n} ${s.replace(/(?<=[a-z])[A-Z]/, " $&").toLowerCase()}`)].join(" · ");
let drawnAt = innerWidth;
addEventListener("resize", () => { if (innerWidth !== drawnAt && runs.length) { drawnAt = innerWidth; drawAll(); } });
if (runs.length) drawAll(); else $("charts").remove();
