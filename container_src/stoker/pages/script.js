"use strict";
// What the scripts of all pages share; each page's own script follows in the same element.
const $ = (id) => document.getElementById(id);
const facts = JSON.parse($("facts").textContent);
const SVG = "http://www.w3.org/2000/svg";
const isNumber = (value) => typeof value === "number";
const clip = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);

// An SVG element at the end of another one.
function add(parent, name, attributes = {}, text) {
  const node = document.createElementNS(SVG, name);
  for (const key in attributes) node.setAttribute(key, attributes[key]);
  if (text !== undefined) node.textContent = text;
  parent.append(node);
  return node;
}

// Round numbers from low to high, about `count` of them.
function makeTicks(low, high, count) {
  const raw = (high - low) / count || 1, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((d) => d * power).find((s) => s >= raw * 0.999), ticks = [];
  for (let t = Math.ceil(low / step - 1e-9); t * step <= high + step * 1e-9; t++) ticks.push(+(t * step).toPrecision(12));
  return ticks;
}
