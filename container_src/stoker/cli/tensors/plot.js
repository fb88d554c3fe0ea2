const W = 340, H = 150, LEFT = 46, RIGHT = 8, TOP = 8, BOTTOM = 20;
const MODES = { T: "train", E: "eval", P: "predict", G: "no mode" };

function show(value) {
  if (value === null || value === undefined) return "·";
  if (typeof value === "string") return value;  // nan, inf
  const size = Math.abs(value);
  if (value !== 0 && (size < 1e-3 || size >= 1e5)) return value.toExponential(1).replace("e+", "e");
  return String(+value.toPrecision(4));
}

const percent = (share) => (share < 0.001 ? "<0.1" : (100 * share).toFixed(1)) + " %";

// What a chart draws: the mean, or the first of the reductions that were saved in its place.
function mainOf(one) {
  const name = one.mean.some((v) => v !== null) ? "mean" : Object.keys(one.reductions)[0];
  return { name: name || "mean", values: one.reductions[name] || one.mean };
}

function makeFewTicks(low, high) {
  const power = 10 ** Math.floor(Math.log10((high - low) / 2));
  // The widest round step that still gives three lines, else the first that gives two.
  const choices = [5, 2.5, 2, 1, 0.5, 0.25, 0.2].map((digit) => digit * power).map((step) => {
    const ticks = [];
    for (let t = Math.ceil(low / step - 1e-9); t * step <= high + step * 1e-9; t++) ticks.push(+(t * step).toPrecision(12));
    return ticks;
  });
  return choices.find((ticks) => ticks.length >= 3) || choices[choices.length - 1];
}

function makeScale(one, main, isLog) {
  let all = [...main.values, ...one.min, ...one.max].filter(isNumber);
  const positive = all.filter((v) => v > 0);
  const useLog = isLog && positive.length > 0 && all.every((v) => v >= 0);
  if (useLog) all = positive.map(Math.log10);
  let low = Math.min(...all), high = Math.max(...all);
  if (!all.length) [low, high] = [0, 1];
  if (high - low <= Math.abs(high) * 1e-9) { const room = Math.abs(high) * 0.05 || 1; low -= room; high += room; }
  else { const room = (high - low) * 0.04; low -= room; high += room; }
  const first = one.steps[0], last = one.steps[one.steps.length - 1];
  const x = (step) => LEFT + (last > first ? (step - first) / (last - first) : 0.5) * (W - LEFT - RIGHT);
  const of = (value) => (value - low) / (high - low);
  const y = (value) => {
    const place = useLog ? of(Math.log10(Math.max(value, 10 ** low))) : of(value);
    return H - BOTTOM - place * (H - TOP - BOTTOM);
  };
  const ticks = useLog
    ? makeFewTicks(low, high).filter((t) => high - low < 2 || Number.isInteger(t)).map((t) => 10 ** t)
    : makeFewTicks(low, high);
  return { x, y, ticks };
}

function drawMode(svg, one, main, scale, mode) {
  const at = one.steps.map((_, i) => i).filter((i) => one.modes[i] === mode);
  const drawn = at.filter((i) => isNumber(main.values[i]));
  const banded = at.filter((i) => isNumber(one.min[i]) && isNumber(one.max[i]));
  const point = (i, value) => `${scale.x(one.steps[i]).toFixed(1)},${scale.y(value).toFixed(1)}`;
  if (banded.length > 1) {
    const edge = [...banded.map((i) => point(i, one.max[i])), ...banded.reverse().map((i) => point(i, one.min[i]))];
    add(svg, "polygon", { class: `band ${mode}`, points: edge.join(" ") });
  }
  add(svg, "polyline", { class: `curve ${mode}`, points: drawn.map((i) => point(i, main.values[i])).join(" ") });
  if (drawn.length < 25) for (const i of drawn) {
    const [cx, cy] = point(i, main.values[i]).split(",");
    add(svg, "circle", { class: `dot ${mode}`, cx, cy, r: drawn.length < 2 ? 3 : 1.8 });
  }
}

function drawBad(svg, one, main, scale) {
  one.steps.forEach((step, i) => {
    if (!(one.bad[i] > 0 || typeof main.values[i] === "string")) return;
    const x = scale.x(step), y = TOP + 5;
    add(svg, "path", { class: "mark", d: `M${x - 3} ${y - 3}l6 6m0 -6l-6 6` });
  });
}

function follow(svg, one, main, scale, line) {
  const still = line.textContent;
  const cursor = add(svg, "line", { class: "cursor", y1: TOP, y2: H - BOTTOM, visibility: "hidden" });
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect(), x = ((event.clientX - box.left) / box.width) * W;
    let near = 0;
    one.steps.forEach((s, i) => { if (Math.abs(scale.x(s) - x) < Math.abs(scale.x(one.steps[near]) - x)) near = i; });
    const at = scale.x(one.steps[near]);
    for (const name of ["x1", "x2"]) cursor.setAttribute(name, at);
    cursor.setAttribute("visibility", "visible");
    const parts = [`step ${one.steps[near]} (${MODES[one.modes[near]]})`, `${main.name} ${show(main.values[near])}`];
    if (one.min[near] !== null) parts.push(`${show(one.min[near])} to ${show(one.max[near])}`, `std ${show(one.std[near])}`);
    if (one.bad[near] > 0) parts.push(`NaN or Inf ${percent(one.bad[near])}`);
    if (one.zero[near] > 0) parts.push(`zero ${percent(one.zero[near])}`);
    line.textContent = parts.join(" · ");
  });
  svg.addEventListener("pointerleave", () => { cursor.setAttribute("visibility", "hidden"); line.textContent = still; });
}

function draw(card, one) {
  card.querySelector("svg")?.remove();
  const main = mainOf(one), scale = makeScale(one, main, $("log").checked);
  const svg = add(card, "svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": one.name });
  for (const tick of scale.ticks) {
    const y = scale.y(tick);
    add(svg, "line", { class: "grid", x1: LEFT, x2: W - RIGHT, y1: y, y2: y });
    add(svg, "text", { x: LEFT - 5, y: y + 3.5, "text-anchor": "end" }, show(tick));
  }
  const first = one.steps[0], last = one.steps[one.steps.length - 1];
  add(svg, "text", { x: LEFT, y: H - 5 }, `step ${first}`);
  if (last > first) add(svg, "text", { x: W - RIGHT, y: H - 5, "text-anchor": "end" }, last);
  for (const mode of new Set(one.modes)) drawMode(svg, one, main, scale, mode);
  drawBad(svg, one, main, scale);
  follow(svg, one, main, scale, card.querySelector("p"));
}

function makeCard(one) {
  const card = document.createElement("section"), main = mainOf(one);
  card.className = "card";
  const known = main.values.filter((v) => v !== null);
  const head = document.createElement("h2"), last = document.createElement("span"), line = document.createElement("p");
  last.className = "last";
  last.textContent = show(known[known.length - 1]);
  head.append(last, one.name);
  line.textContent = one.about + (main.name === "mean" ? "" : ` · ${main.name}`);
  if (one.problems.length) { line.className = "bad"; line.textContent = `damaged: ${one.problems[0]}`; }
  card.append(head, line);
  return card;
}

// A chart is drawn when it comes into sight: a page may have hundreds.
const cards = facts.series.map((one) => ({ one, card: makeCard(one), isDrawn: false }));
const byCard = new Map(cards.map((entry) => [entry.card, entry]));
const seen = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    const entry = byCard.get(target);
    if (isIntersecting && !entry.isDrawn && entry.one.steps.length) { draw(entry.card, entry.one); entry.isDrawn = true; }
  }
}, { rootMargin: "400px" });

function filter() {
  const text = $("search").value.trim().toLowerCase(), kind = $("kind").value;
  let matches = (name) => name.toLowerCase().includes(text);
  try { const regex = new RegExp(text, "i"); matches = (name) => regex.test(name); } catch { /* a part of a name, then */ }
  let count = 0;
  for (const { one, card } of cards) {
    const isShown = matches(one.name) && (!kind || one.kind === kind);
    card.hidden = !isShown;
    card.style.display = isShown ? "" : "none";
    count += isShown;
  }
  $("count").textContent = count === cards.length ? `${count} tensors` : `${count} of ${cards.length} tensors`;
}

function start() {
  const modes = [...new Set(facts.series.flatMap((one) => one.modes))];
  $("lead").textContent = `${facts.place}; the run ${facts.hasEnded ? "has ended" : "is running, or was killed"}. The line is the mean, the band is from the minimum to the maximum; ✗ marks NaN or infinity. `;
  if (modes.length > 1) for (const mode of modes) {
    const key = document.createElement("i");
    key.className = `key ${mode}`;
    $("lead").append(key, MODES[mode] + " ");
  }
  for (const kind of [...new Set(facts.series.map((one) => one.kind))].sort()) $("kind").append(new Option(kind, kind));
  const thinned = facts.series.filter((one) => one.savedSteps > one.steps.length).length;
  $("foot").textContent = [
    facts.leftOut ? `${facts.leftOut} more tensors are left out: narrow it by --name.` : "",
    thinned ? `Of ${thinned} tensors not every step is drawn, but evenly spread ones.` : "",
    `stoker tensors plot, version ${facts.version}`,
  ].filter(Boolean).join(" ");
  for (const { card } of cards) { $("charts").append(card); seen.observe(card); }
  $("search").addEventListener("input", filter);
  $("kind").addEventListener("input", filter);
  $("log").addEventListener("input", () => cards.forEach((entry) => { if (entry.isDrawn) draw(entry.card, entry.one); }));
  filter();
  document.body.dataset.charts = cards.length;
}
start();
