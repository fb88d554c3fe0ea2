const stage = $("stage"), pen = stage.getContext("2d");
const WITHIN = 0.2, BETWEEN = 1, AFTER_INPUT = 2;  // distances of planes along the network
const FRAME_MS = 700, DRAG_PIXELS = 4;
const MAGMA = ["#0b0924", "#231151", "#4a1079", "#721f81", "#9f2f7f", "#cd4071", "#f1605d", "#fd9567", "#fec98d", "#fcfdbf"];
const NOT_FINITE = [0, 229, 160];  // a green that is in neither ramp

const state = { frame: 0, yaw: 1.05, pitch: 0.26, scale: 1, x: 0, y: 0, zoom: 1, panX: 0, panY: 0, spread: 1, chosen: 0, isPlaying: false };

function makeRamp(colours) {
  const stops = colours.map((c) => [1, 3, 5].map((i) => parseInt(c.slice(i, i + 2), 16)));
  const ramp = new Uint8Array(256 * 3);
  for (let i = 0; i < 256; i++) {
    const at = (i / 255) * (stops.length - 1), low = Math.floor(at), high = Math.min(low + 1, stops.length - 1);
    for (let c = 0; c < 3; c++) ramp[3 * i + c] = stops[low][c] + (at - low) * (stops[high][c] - stops[low][c]);
  }
  return ramp;
}
const RAMPS = { layer: makeRamp(MAGMA), prediction: makeRamp(MAGMA), input: makeRamp(["#101216", "#f4f4f0"]) };

function show(value) {
  const size = Math.abs(value);
  if (value !== 0 && (size < 1e-3 || size >= 1e5)) return value.toExponential(2).replace("e+", "e");
  return String(+value.toPrecision(4));
}

// Level 0 is NaN or infinity; 1 to 255 lie between the least and the greatest value of the frame.
const bytes = Uint8Array.from(atob(facts.levels), (c) => c.charCodeAt(0));
let offset = 0;
const actors = facts.actors.map((actor) => {
  const size = actor.count * actor.height * actor.width;
  const frames = actor.ranges.map((range) => {
    if (!range) return null;
    offset += size;
    return bytes.subarray(offset - size, offset);
  });
  // Where all of a frame is NaN, its range says nothing.
  const known = actor.ranges.filter((range, i) => range && frames[i].some((level) => level > 0));
  const isRow = actor.height === 1;
  const canvas = document.createElement("canvas");
  // A row is drawn upright, as layers of neurons are.
  canvas.width = isRow ? 1 : actor.width;
  canvas.height = isRow ? actor.width : actor.height * actor.count;
  return { ...actor, frames, isRow, canvas, whole: known.length ? [Math.min(...known.map((r) => r[0])), Math.max(...known.map((r) => r[1]))] : [0, 0] };
});
const longest = Math.max(...actors.map((a) => (a.isRow ? 1 : Math.max(...a.size))));

function paint(actor) {
  const levels = actor.frames[state.frame], ramp = RAMPS[actor.role], brush = actor.canvas.getContext("2d");
  const image = brush.createImageData(actor.canvas.width, actor.canvas.height), out = image.data;
  if (levels) {
    const [low, high] = actor.ranges[state.frame], [least, most] = $("range").value === "run" ? actor.whole : [low, high];
    const span = most - least || 1, lookup = new Uint8Array(256);
    for (let level = 1; level < 256; level++) {
      const value = low + ((level - 1) / 254) * (high - low);
      lookup[level] = Math.round(255 * Math.min(1, Math.max(0, (value - least) / span)));
    }
    for (let i = 0; i < levels.length; i++) {
      const at = 3 * lookup[levels[i]], isBad = levels[i] === 0;
      for (let c = 0; c < 3; c++) out[4 * i + c] = isBad ? NOT_FINITE[c] : ramp[at + c];
      out[4 * i + 3] = 255;
    }
  }
  brush.putImageData(image, 0, 0);
}

// The scene: planes one behind the other along z, each with its width and height.
function place() {
  const lengthOf = (spread) => {
    let z = 0, length = 0;
    for (const actor of actors) {
      actor.z = z;
      actor.depth = actor.isRow ? 0 : (actor.count - 1) * WITHIN * spread;
      length = z + actor.depth;
      z = length + (actor.role === "input" ? AFTER_INPUT : BETWEEN) * spread ** 0.5;
    }
    return length;
  };
  // So high that a long network stays legible: the distances are what is given.
  const base = Math.min(30, Math.max(4, lengthOf(1) * 0.3)), length = lengthOf(state.spread);
  for (const actor of actors) {
    actor.z -= length / 2;
    const side = Math.max(...actor.size), scaled = base * (side / longest) ** 0.4;
    if (actor.isRow) {
      actor.h = base * Math.min(1.5, Math.max(0.25, actor.width / 50));
      actor.w = Math.max(base * 0.06, Math.min(base * 0.12, actor.h / actor.width));
    } else [actor.w, actor.h] = [scaled * (actor.size[1] / side), scaled * (actor.size[0] / side)];
  }
}

function project(u, v, z) {
  const { yaw, pitch } = state, depth = z * Math.cos(yaw) - u * Math.sin(yaw);
  return [u * Math.cos(yaw) + z * Math.sin(yaw), -(v * Math.cos(pitch) + depth * Math.sin(pitch))];
}

const cornersOf = (a) => [a.z, a.z + a.depth].flatMap((z) => [-1, 1].flatMap((s) => [-1, 1].map((t) => project((s * a.w) / 2, (t * a.h) / 2, z))));

// Scale and middle so that all is in sight; kept while the user turns it.
function fit() {
  const corners = actors.flatMap(cornersOf), xs = corners.map((c) => c[0]), ys = corners.map((c) => c[1]);
  const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const aside = document.querySelector("aside").offsetWidth;
  const width = Math.max(200, stage.clientWidth - (aside ? aside + 130 : 60)), height = Math.max(120, stage.clientHeight - 290);
  const scale = Math.min(width / (right - left || 1), height / (bottom - top || 1));
  Object.assign(state, { scale, zoom: 1, panX: 0, panY: 0 });
  state.x = 30 + width / 2 - ((left + right) / 2) * scale;
  state.y = 90 + height / 2 - ((top + bottom) / 2) * scale;
}

const view = () => ({ scale: state.scale * state.zoom, x: state.x + state.panX, y: state.y + state.panY });

let planes = [];  // of the last drawing, the farthest first
function arrange() {
  const at = view();
  planes = actors.flatMap((actor) => Array.from({ length: actor.isRow ? 1 : actor.count }, (_, k) => {
    const z = actor.z + k * WITHIN * state.spread;
    const [x0, y0] = project(-actor.w / 2, actor.h / 2, z);
    const [x1, y1] = project(actor.w / 2, actor.h / 2, z);
    const [x2, y2] = project(-actor.w / 2, -actor.h / 2, z);
    const w = actor.canvas.width, h = actor.isRow ? actor.canvas.height : actor.height, s = at.scale;
    const matrix = [((x1 - x0) * s) / w, ((y1 - y0) * s) / w, ((x2 - x0) * s) / h, ((y2 - y0) * s) / h, x0 * s + at.x, y0 * s + at.y];
    return { actor, k, z, w, h, matrix };
  }));
  // All are parallel: the order along z is the order of depth.
  planes.sort((a, b) => (Math.cos(state.yaw) >= 0 ? b.z - a.z : a.z - b.z));
}

function draw() {
  const ratio = window.devicePixelRatio || 1;
  stage.width = stage.clientWidth * ratio;
  stage.height = stage.clientHeight * ratio;
  arrange();
  for (const { actor, k, w, h, matrix } of planes) {
    pen.setTransform(...matrix.map((m) => m * ratio));
    const isThere = actor.frames[state.frame] !== null;
    pen.imageSmoothingEnabled = false;
    pen.globalAlpha = actor.role === "input" ? 0.95 : 0.82;
    if (isThere) pen.drawImage(actor.canvas, 0, actor.isRow ? 0 : k * h, w, h, 0, 0, w, h);
    pen.beginPath();
    pen.rect(0, 0, w, h);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.globalAlpha = isThere ? 0.55 : 0.25;
    pen.strokeStyle = actors[state.chosen] === actor ? "#9fd0ff" : "#59606e";
    pen.lineWidth = 0.7;
    pen.stroke();
  }
  pen.globalAlpha = 1;
  drawNames();
  document.body.dataset.drawn = planes.length;
}

// Below each tensor, slanting: neighbours are narrow. From right to left, each clear of the last.
function drawNames() {
  const at = view(), slant = 0.6, line = 14;
  let clear = -Infinity;
  for (const actor of [...actors].sort((a, b) => project(0, 0, b.z)[0] - project(0, 0, a.z)[0])) {
    const corners = cornersOf(actor).map(([x, y]) => [x * at.scale + at.x, y * at.scale + at.y]);
    const x = (Math.min(...corners.map((c) => c[0])) + Math.max(...corners.map((c) => c[0]))) / 2;
    let y = Math.max(...corners.map((c) => c[1])) + 12;
    const across = () => y * Math.cos(slant) - x * Math.sin(slant);  // distance of the slanting lines
    y = Math.min(Math.max(y, y + (clear + line - across()) / Math.cos(slant)), y + 90);
    clear = across();
    pen.save();
    pen.translate(x, y);
    pen.rotate(slant);
    pen.font = "12px system-ui, sans-serif";
    pen.fillStyle = actor === actors[state.chosen] ? "#9fd0ff" : "#b6bbc6";
    pen.lineWidth = 3;
    pen.strokeStyle = "#111318c0";
    pen.strokeText(clip(actor.name, 26), 0, 4);
    pen.fillText(clip(actor.name, 26), 0, 4);
    pen.restore();
    if (actor.texts[state.frame]) drawText(actor.texts[state.frame], x, at);
  }
}

// Above whatever is there.
function drawText(text, x, at) {
  pen.font = "600 15px system-ui, sans-serif";
  pen.fillStyle = "#e8e6e1";
  const half = pen.measureText(text).width / 2;
  const all = actors.flatMap(cornersOf).filter((c) => Math.abs(c[0] * at.scale + at.x - x) < half + 6);
  pen.fillText(text, x - half, Math.min(...all.map((c) => c[1])) * at.scale + at.y - 14);
}

// All planes of the chosen tensor side by side.
function drawSheet() {
  const actor = actors[state.chosen], sheet = $("sheet"), brush = sheet.getContext("2d");
  const gap = 1, w = actor.isRow ? Math.ceil(Math.sqrt(actor.width)) : actor.width;
  const h = actor.isRow ? Math.ceil(actor.width / w) : actor.height;
  const columns = Math.max(1, Math.min(actor.count, Math.ceil(Math.sqrt((actor.count * h) / w)))), rows = Math.ceil(actor.count / columns);
  const zoom = Math.max(1, Math.floor(560 / (columns * (w + gap))));
  sheet.width = (columns * (w + gap) - gap) * zoom;
  sheet.height = (rows * (h + gap) - gap) * zoom;
  brush.imageSmoothingEnabled = false;
  const isThere = actor.frames[state.frame] !== null;
  actor.sheet = { columns, w, h, gap };
  if (actor.isRow) for (let i = 0; isThere && i < actor.width; i++) brush.drawImage(actor.canvas, 0, i, 1, 1, (i % w) * zoom, Math.floor(i / w) * zoom, zoom, zoom);
  else for (let k = 0; isThere && k < actor.count; k++) {
    const x = (k % columns) * (w + gap) * zoom, y = Math.floor(k / columns) * (h + gap) * zoom;
    brush.drawImage(actor.canvas, 0, k * h, w, h, x, y, w * zoom, h * zoom);
  }
  $("sheet-name").textContent = actor.name;
  const shown = actor.count < actor.planeCount ? `, ${actor.count} of ${actor.planeCount} planes` : actor.count > 1 ? `, ${actor.count} planes` : "";
  $("sheet-about").textContent = actor.about + shown + (isThere ? "" : " (not saved at this step)");
  const range = $("range").value === "run" ? actor.whole : actor.ranges[state.frame];
  $("low").textContent = range ? show(range[0]) : "";
  $("high").textContent = range ? show(range[1]) : "";
  const badCount = isThere ? actor.frames[state.frame].reduce((sum, level) => sum + (level === 0), 0) : 0;
  $("bad").hidden = !badCount;
  $("bad").textContent = `■ NaN or infinity: ${badCount.toLocaleString("en")} of ${(actor.count * actor.height * actor.width).toLocaleString("en")} shown`;
  const ramp = $("ramp").getContext("2d"), image = ramp.createImageData(256, 1);
  for (let i = 0; i < 256; i++) image.data.set([...RAMPS[actor.role].subarray(3 * i, 3 * i + 3), 255], 4 * i);
  ramp.putImageData(image, 0, 0);
}

let isWaiting = false;
function redraw(isRepainted) {
  if (isRepainted) actors.forEach(paint);
  if (isWaiting) return;
  isWaiting = true;
  requestAnimationFrame(() => { isWaiting = false; draw(); drawSheet(); });
}

function goTo(frame) {
  state.frame = frame;
  $("step").value = frame;
  $("now").textContent = `step ${facts.steps[frame]} (${frame + 1}/${facts.steps.length})`;
  redraw(true);
}

function play(isPlaying) {
  state.isPlaying = isPlaying;
  $("play").textContent = isPlaying ? "❚❚ Pause" : "▶ Play";
  clearInterval(play.timer);
  if (isPlaying) play.timer = setInterval(() => goTo((state.frame + 1) % facts.steps.length), FRAME_MS);
}

function find(x, y) {
  for (let i = planes.length - 1; i >= 0; i--) {
    const { actor, k, w, h, matrix: [a, b, c, d, e, f] } = planes[i], det = a * d - b * c;
    if (Math.abs(det) < 1e-9) continue;
    const px = (d * (x - e) - c * (y - f)) / det, py = (a * (y - f) - b * (x - e)) / det;
    if (px >= 0 && py >= 0 && px < w && py < h) return { actor, k, px: Math.floor(px), py: Math.floor(py) };
  }
  return null;
}

function tell(found, x, y) {
  $("tip").hidden = !found;
  if (!found) return;
  const { actor, k, px, py } = found, levels = actor.frames[state.frame];
  const index = actor.isRow ? py : (k * actor.height + py) * actor.width + px;
  let value = "not saved";
  if (levels) {
    const [low, high] = actor.ranges[state.frame], level = levels[index];
    value = level ? show(low + ((level - 1) / 254) * (high - low)) : "NaN or infinity";
  }
  $("tip").textContent = `${actor.name}${actor.count > 1 ? ` · plane ${k}` : ""} · ${actor.isRow ? py : `${py}, ${px}`} · ${value}`;
  $("tip").style.left = `${Math.min(x + 14, innerWidth - $("tip").offsetWidth - 8)}px`;
  $("tip").style.top = `${y + 16}px`;
}

function listen() {
  const pointers = new Map();
  let moved = 0, pinch = 0;
  stage.addEventListener("pointerdown", (e) => { stage.setPointerCapture(e.pointerId); pointers.set(e.pointerId, e); moved = 0; pinch = 0; });
  stage.addEventListener("pointermove", (e) => {
    const before = pointers.get(e.pointerId);
    if (!before) return tell(find(e.clientX, e.clientY), e.clientX, e.clientY);
    const dx = e.clientX - before.clientX, dy = e.clientY - before.clientY;
    pointers.set(e.pointerId, e);
    moved += Math.abs(dx) + Math.abs(dy);
    if (pointers.size === 2) {
      const [p, q] = [...pointers.values()], apart = Math.hypot(p.clientX - q.clientX, p.clientY - q.clientY);
      if (pinch) state.zoom = Math.min(40, Math.max(0.2, (state.zoom * apart) / pinch));
      pinch = apart;
    } else if (e.shiftKey || e.buttons === 2 || e.buttons === 4) { state.panX += dx; state.panY += dy; }
    else { state.yaw -= dx * 0.006; state.pitch = Math.min(1.5, Math.max(-1.5, state.pitch + dy * 0.006)); }
    $("tip").hidden = true;
    redraw();
  });
  for (const name of ["pointerup", "pointercancel"]) stage.addEventListener(name, (e) => {
    pointers.delete(e.pointerId);
    const found = moved < DRAG_PIXELS && find(e.clientX, e.clientY);
    if (found) { state.chosen = actors.indexOf(found.actor); redraw(); }
  });
  stage.addEventListener("pointerleave", () => tell(null));
  stage.addEventListener("contextmenu", (e) => e.preventDefault());
  stage.addEventListener("wheel", (e) => {
    e.preventDefault();
    const factor = Math.min(40, Math.max(0.2, state.zoom * Math.exp(-e.deltaY * 0.0015))) / state.zoom, at = view();
    state.zoom *= factor;
    state.panX += (e.clientX - at.x) * (1 - factor);  // what is under the mouse stays there
    state.panY += (e.clientY - at.y) * (1 - factor);
    redraw();
  }, { passive: false });
  $("step").addEventListener("input", () => { play(false); goTo(+$("step").value); });
  $("spread").addEventListener("input", () => { state.spread = +$("spread").value; place(); redraw(); });
  $("range").addEventListener("input", () => redraw(true));
  $("play").addEventListener("click", () => play(!state.isPlaying));
  $("reset").addEventListener("click", () => { fit(); redraw(); });
  addEventListener("resize", () => { fit(); redraw(); });
  addEventListener("keydown", (e) => {
    const count = facts.steps.length;
    if (e.key === " " && e.target.tagName !== "BUTTON") { e.preventDefault(); play(!state.isPlaying); }
    if (e.target.tagName === "INPUT" || e.target.tagName === "SELECT") return;
    if (e.key === "ArrowRight") goTo((state.frame + 1) % count);
    if (e.key === "ArrowLeft") goTo((state.frame + count - 1) % count);
  });
}

function start() {
  const samples = { mean: "the mean of the batch", all: "all samples of the batch" };
  $("title").textContent = "A network's tensors over training";
  $("lead").textContent = `${facts.place} · ${facts.mode.toLowerCase()} · ${samples[facts.sample] || `sample ${facts.sample}`} · drag to turn, wheel to zoom, shift-drag to move, click a tensor to see all of it`;
  const notes = $("notes");
  notes.hidden = !facts.notes.length;
  notes.querySelector("summary").textContent = `left out or made smaller: ${facts.notes.length}`;
  for (const note of facts.notes) { const item = document.createElement("li"); item.textContent = note; notes.querySelector("ul").append(item); }
  $("step").max = facts.steps.length - 1;
  $("play").disabled = facts.steps.length < 2;
  state.chosen = Math.max(0, actors.findIndex((a) => a.role === "layer" && a.count > 1));
  const asked = new URLSearchParams(location.hash.slice(1));  // #step=3&play: to link to a moment
  for (const name of ["yaw", "pitch", "spread", "chosen"]) if (asked.has(name)) state[name] = +asked.get(name);
  $("spread").value = state.spread;
  place();
  fit();
  listen();
  goTo(Math.min(+(asked.get("frame") || 0), facts.steps.length - 1));
  if (asked.has("play")) play(true);
}
start();
