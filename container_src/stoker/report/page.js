// Timelines that share one window of time: drag to zoom, double-click for everything.
let WIDTH = 960;
const LEFT = 64, RIGHT = 8, HEIGHT = 120, TOP = 6, BOTTOM = 20;
let view = [facts.start, facts.end];
const charts = [];

function node(name, attributes, parent) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (parent) parent.appendChild(made);
  return made;
}
function element(name, text, parent, kind) {
  const made = document.createElement(name);
  if (text) made.textContent = text;
  if (kind) made.className = kind;
  if (parent) parent.appendChild(made);
  return made;
}
function amount(value, unit) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  if (unit === "%") return `${value.toFixed(value < 10 ? 1 : 0)} %`;
  if (unit === "s") return value >= 1 ? `${value.toPrecision(3)} s` : `${(value * 1000).toPrecision(3)} ms`;
  for (const [size, name] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]])
    if (value >= size) return `${(value / size).toPrecision(3)} ${name}${unit}`;
  if (!unit && value !== 0 && Math.abs(value) < 1e-3) return value.toExponential(1);
  return `${value.toPrecision(3)} ${unit}`.trim();
}
function clock(seconds, whole = seconds) {  // `whole` chooses the unit: one for a whole axis
  if (seconds === 0) return "0";
  if (whole < 90) return `${seconds.toFixed(whole < 10 ? 1 : 0)} s`;
  if (whole < 5400) return `${(seconds / 60).toFixed(1)} min`;
  return `${(seconds / 3600).toFixed(2)} h`;
}
const across = (time) => LEFT + (time - view[0]) / Math.max(view[1] - view[0], 1e-6) * (WIDTH - LEFT - RIGHT);
const timeAt = (svg, event) => {
  const box = svg.getBoundingClientRect();
  const x = (event.clientX - box.left) / box.width * WIDTH;
  return view[0] + (x - LEFT) / (WIDTH - LEFT - RIGHT) * (view[1] - view[0]);
};

function makeChart(parent, spec) {
  const box = element("div", "", parent, "chart");
  const head = element("h3", spec.title, box);
  spec.lines.forEach((line, n) => {
    const key = element("span", "", head);
    element("i", "", key, `key c${n % 8}`);
    key.append(line.name);
  });
  const svg = node("svg", { role: "img" }, box);
  svg.setAttribute("aria-label", `${spec.title} over time`);
  const tip = element("div", "", box, "tip");
  const chart = { spec, svg, tip };
  charts.push(chart);
  listen(chart);
  draw(chart);
}
function highest(spec) {
  let top = 0;
  for (const line of spec.lines)
    line.means.forEach((mean, n) => {
      if (line.times[n] < view[0] || line.times[n] > view[1]) return;
      top = Math.max(top, mean || 0, line.highs.length ? line.highs[n] || 0 : 0);
    });
  if (spec.unit === "%") return top > 50 ? 100 : Math.max(10, Math.ceil(top / 10) * 10);
  return top * 1.05 || 1;
}
function range(spec) {  // of a metric, which need not begin at zero
  const seen = spec.lines.flatMap((line) => line.means.filter((mean, n) =>
    mean !== null && line.times[n] >= view[0] && line.times[n] <= view[1]));
  const low = Math.min(...seen), top = Math.max(...seen);
  return seen.length && top > low ? [low, top] : [(seen[0] || 0) - 1, (seen[0] || 0) + 1];
}
function path(line, values, up) {
  let text = "", pen = false;
  // One point outside of the window on each side, so that lines reach the edges.
  for (let n = 0; n < values.length; n++) {
    const inside = (line.times[n + 1] === undefined || line.times[n + 1] >= view[0])
      && (n === 0 || line.times[n - 1] <= view[1]);
    if (values[n] === null || !inside) { pen = false; continue; }
    text += `${pen ? "L" : "M"}${across(line.times[n]).toFixed(1)} ${up(values[n]).toFixed(1)}`;
    pen = true;
  }
  return text;
}
function axes(svg, low, top, unit, up) {
  for (const share of [0, .5, 1]) {
    const value = low + (top - low) * share, y = up(value);
    node("path", { class: "grid", d: `M${LEFT} ${y}H${WIDTH - RIGHT}` }, svg);
    node("text", { x: LEFT - 5, y: y + 4, "text-anchor": "end" }, svg).textContent = amount(value, unit);
  }
  for (const share of WIDTH < 600 ? [0, .5, 1] : [0, .25, .5, .75, 1]) {
    const time = view[0] + share * (view[1] - view[0]);
    const anchor = share === 0 ? "start" : share === 1 ? "end" : "middle";
    node("text", { x: across(time), y: HEIGHT + TOP + 15, "text-anchor": anchor }, svg)
      .textContent = clock(Math.max(0, time - facts.start), view[1] - facts.start);
  }
}
function draw(chart) {
  const { spec, svg } = chart;
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT + TOP + BOTTOM}`);
  const clip = node("clipPath", { id: `clip${charts.indexOf(chart)}` }, node("defs", {}, svg));
  node("rect", { x: LEFT, y: 0, width: WIDTH - LEFT - RIGHT, height: HEIGHT + TOP }, clip);
  const inner = node("g", { "clip-path": `url(#${clip.id})` }, svg);
  for (const band of facts.phases) {
    if (spec.host && band.host && band.host !== spec.host) continue;
    const x = across(band.start);
    const rect = node("rect", { class: `band ${band.kind}`, x, y: TOP,
      width: Math.max(1, across(band.end) - x), height: HEIGHT }, inner);
    node("title", {}, rect).textContent = `${band.kind}, ${clock(band.end - band.start)}`;
  }
  const [low, top] = spec.stack ? [0, stackTop(spec)] : spec.isFree ? range(spec) : [0, highest(spec)];
  const up = (value) => TOP + HEIGHT - Math.min((value - low) / (top - low), 1.05) * HEIGHT;
  axes(svg, low, top, spec.unit, up);
  if (spec.stack) drawStack(spec, inner, top);
  else spec.lines.forEach((line, n) => {
    if (line.highs.length) node("path", { class: `high c${n % 8}`, d: path(line, line.highs, up) }, inner);
    node("path", { class: `line c${n % 8}`, d: path(line, line.means, up) }, inner);
    if (line.means.length === 1)
      node("rect", { class: `c${n % 8}`, x: across(line.times[0]) - 2, y: up(line.means[0]) - 2, width: 4, height: 4 }, inner);
  });
  chart.cursor = node("path", { class: "cursor", d: "" }, inner);
  chart.drag = node("rect", { class: "drag", y: TOP, height: HEIGHT, width: 0, x: 0 }, inner);
}
function stackTop(spec) {
  let top = 0;
  for (let n = 0; n < spec.times.length; n++)
    top = Math.max(top, spec.lines.reduce((sum, line) => sum + line.means[n], 0));
  return top * 1.05 || 1;
}
function drawStack(spec, inner, top) {
  spec.times.forEach((time, n) => {
    let base = 0;
    spec.lines.forEach((line, place) => {
      const height = line.means[n] / top * HEIGHT;
      if (height > .2) node("rect", { class: `stack c${place % 8}`, x: across(time),
        y: TOP + HEIGHT - base - height, width: Math.max(.8, across(spec.ends[n]) - across(time)), height }, inner);
      base += height;
    });
  });
}
function nearest(times, time) {
  let low = 0, high = times.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] < time) low = middle + 1; else high = middle;
  }
  return low > 0 && time - times[low - 1] < times[low] - time ? low - 1 : low;
}
function say(time) {
  for (const chart of charts) {
    chart.cursor.setAttribute("d", `M${across(time)} ${TOP}V${TOP + HEIGHT}`);
    const parts = chart.spec.lines.filter((line) => line.times.length).map((line) => {
      const n = nearest(line.times, time);
      const high = line.highs.length && line.highs[n] !== null ? ` (up to ${amount(line.highs[n], chart.spec.unit)})` : "";
      return `${line.name} ${amount(line.means[n], chart.spec.unit)}${high}`;
    });
    chart.tip.textContent = `at ${clock(Math.max(0, time - facts.start))}: ${parts.join(" · ")}`;
  }
}
function listen(chart) {
  let from = null;
  const { svg } = chart;
  svg.addEventListener("pointermove", (event) => {
    const time = Math.min(Math.max(timeAt(svg, event), view[0]), view[1]);
    say(time);
    if (from === null) return;
    const [a, b] = [across(Math.min(from, time)), across(Math.max(from, time))];
    chart.drag.setAttribute("x", a);
    chart.drag.setAttribute("width", b - a);
  });
  svg.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "touch") return;  // a finger scrolls; it zooms with the buttons
    from = timeAt(svg, event);
    svg.setPointerCapture(event.pointerId);
  });
  svg.addEventListener("pointerup", (event) => {
    if (from === null) return;
    const to = timeAt(svg, event), start = from;
    from = null;
    chart.drag.setAttribute("width", 0);
    if (Math.abs(across(to) - across(start)) > 6) look(Math.min(start, to), Math.max(start, to));
  });
  svg.addEventListener("dblclick", () => look(facts.start, facts.end));
}
function look(start, end) {
  view = [Math.max(start, facts.start), Math.min(end, facts.end)];
  if (view[1] - view[0] < 0.01) view = [facts.start, facts.end];
  charts.forEach(draw);
}
function buttons(parent) {
  const bar = element("p", "", parent);
  for (const [text, act] of [
    ["closer", () => { const part = (view[1] - view[0]) / 4; look(view[0] + part, view[1] - part); }],
    ["◀", () => { const part = (view[1] - view[0]) / 2; look(view[0] - part, view[1] - part); }],
    ["▶", () => { const part = (view[1] - view[0]) / 2; look(view[0] + part, view[1] + part); }],
    ["everything", () => look(facts.start, facts.end)],
  ]) {
    element("button", text, bar).addEventListener("click", act);
    bar.append(" ");
  }
}

function fit() {  // letters keep their size on a phone
  const place = document.getElementById("steps-charts") || document.getElementById("timelines-charts");
  WIDTH = Math.round(Math.min(960, Math.max(320, place ? place.clientWidth : 960)));
  charts.forEach(draw);
}
fit();
window.addEventListener("resize", fit);
const steps = document.getElementById("steps-charts");
if (steps && facts.steps.length) {
  makeChart(steps, { title: "Seconds of a step", unit: "s", lines: facts.steps });
  if (facts.parts.times.length) {
    const lines = facts.parts.parts.map((part) => ({
      name: part.name, times: facts.parts.times, means: part.values, highs: [] }))
      .filter((line) => line.means.some((value) => value > 0));
    makeChart(steps, { title: `Parts of a step, ${facts.parts.name}`, unit: "s", stack: true,
      times: facts.parts.times, ends: facts.parts.ends, lines });
  }
}
const memory = document.getElementById("memory-charts");
if (memory) for (const host of facts.memory)
  for (const chart of host.charts) {
    const title = facts.memory.length > 1 ? `${chart.title}, ${host.name}` : chart.title;
    makeChart(memory, { ...chart, title, host: host.name });
  }
const metrics = document.getElementById("metrics-charts");
if (metrics) for (const chart of facts.metrics) makeChart(metrics, { ...chart, isFree: true });
const timelines = document.getElementById("timelines-charts");
if (timelines && facts.hosts.length) {
  buttons(timelines);
  for (const host of facts.hosts) {
    if (facts.hosts.length > 1) element("h3", host.name, timelines);
    for (const chart of host.charts) makeChart(timelines, { ...chart, host: host.name });
  }
}
