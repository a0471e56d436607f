"use strict";
// The map: nodes as dots on a canvas. Arrays come with the page; nothing is ever asked from outside.

const NONE = 0xffff;  // no class
const NO_SHARE = 0xff;
const REACH = 12;  // how far from the pointer a node is still meant, in pixels
const NODE_MAP = document.getElementById("map");
const ABOUT = JSON.parse(document.getElementById("map-about").textContent);
const FEW = ["#3b82c4", "#e08e00", "#0f9d75", "#d1495b", "#b86fd0", "#56b4e9", "#a39a00", "#8c6d5a", "#7d8590", "#e377a8"];
const SCALE = ["#3d55a8", "#5b78b3", "#7f9a9a", "#b3ab62", "#f2c43c"];
const GREY = "#8a9099";

const part = (name) => NODE_MAP.querySelector(`[data-part="${name}"]`);
const canvas = part("canvas"), context = canvas.getContext("2d", { willReadFrequently: false });
const view = { x: 0.5, y: 0.5, zoom: 1 };
const state = { hover: -1, selected: -1, mode: 0, hidden: new Set(), only: -1, printing: false };
const cells = ABOUT.cells.map(() => null);  // the columns of the node table, unpacked when they are wanted
let nodes, grid, near, places, values, colours, image, waiting = false;

// --- arrays ----------------------------------------------------------------------------------------------------------

async function unpack(name) {
  const text = atob(document.getElementById(name).textContent);
  const zipped = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) zipped[i] = text.charCodeAt(i);
  const stream = new Blob([zipped]).stream().pipeThrough(new DecompressionStream("gzip"));
  const buffer = await new Response(stream).arrayBuffer();
  const columns = JSON.parse(document.getElementById(`${name}-columns`).textContent);
  const kinds = { Uint8Array, Uint16Array, Int16Array, Uint32Array, Float32Array, Float64Array };
  return Object.fromEntries(Object.entries(columns).map(
    ([column, [kind, offset, length]]) => [column, new kinds[kind](buffer, offset, length)]));
}

const decoder = new TextDecoder();
const textAt = ({ letter, begin }, place) => decoder.decode(letter.subarray(begin[place], begin[place + 1]));
const idOf = (node) => textAt(nodes, node);
const cellsOf = async (number) => (cells[number] ??= await unpack(`map-cells-${number}`));
const tight = (text) => text.replace(/\s+/g, "");  // a search box holds no line breaks

// An id as it is goes before one that differs in white space.
function find(text) {
  if (!places) {
    places = new Map();
    for (let node = nodes.x.length - 1; node >= 0; node--) places.set(tight(idOf(node)), node);
    for (let node = 0; node < nodes.x.length; node++) places.set(idOf(node), node);
  }
  return places.get(text) ?? places.get(tight(text)) ?? -1;
}

// Nodes sorted into cells of a square grid: those of a cell are order[start[cell]] to order[start[cell + 1] - 1].
function makeGrid() {
  const side = Math.max(1, Math.min(512, Math.floor(Math.sqrt(nodes.x.length / 2))));
  const start = new Uint32Array(side * side + 1), order = new Uint32Array(nodes.x.length);
  const cellOf = (node) => cell(nodes.y[node]) * side + cell(nodes.x[node]);
  const cell = (place) => Math.min(side - 1, Math.floor((place / 65536) * side));
  for (let node = 0; node < order.length; node++) start[cellOf(node) + 1]++;
  for (let i = 0; i < side * side; i++) start[i + 1] += start[i];
  const next = start.slice();
  for (let node = 0; node < order.length; node++) order[next[cellOf(node)]++] = node;
  return { side, start, order };
}

// --- where things are ------------------------------------------------------------------------------------------------

const scale = () => 0.94 * Math.min(canvas.clientWidth, canvas.clientHeight) * view.zoom;
const toScreen = (node) => [
  (nodes.x[node] / 65535 - view.x) * scale() + canvas.clientWidth / 2,
  (nodes.y[node] / 65535 - view.y) * scale() + canvas.clientHeight / 2];
const toMap = (x, y) => [
  (x - canvas.clientWidth / 2) / scale() + view.x, (y - canvas.clientHeight / 2) / scale() + view.y];

function nodeAt(x, y, reach = REACH) {
  const { side, start, order } = grid, wide = reach / scale();
  const [mapX, mapY] = toMap(x, y);
  const cell = (place) => Math.max(0, Math.min(side - 1, Math.floor(place * side)));
  let best = -1, least = wide * wide;
  for (let row = cell(mapY - wide); row <= cell(mapY + wide); row++) {
    for (let i = start[row * side + cell(mapX - wide)]; i < start[row * side + cell(mapX + wide) + 1]; i++) {
      const node = order[i], dx = nodes.x[node] / 65535 - mapX, dy = nodes.y[node] / 65535 - mapY;
      const distance = dx * dx + dy * dy;
      if (distance <= least && isShown(node)) [best, least] = [node, distance];
    }
  }
  return best;
}

// --- colours ---------------------------------------------------------------------------------------------------------

const mode = () => ABOUT.modes[state.mode];
const groupOf = (node) => (values[node] < mode().groups.length ? values[node] : NONE);
const isShown = (node) => mode().kind !== "groups" || !state.hidden.has(groupOf(node));

function groupColour(number, count) {
  if (number < 0) return GREY;
  if (count <= FEW.length) return FEW[number];
  return `oklch(${[0.62, 0.73, 0.52, 0.8][number % 4]} 0.14 ${(number * 137.508) % 360})`;
}

// Any colour that CSS knows, as red, green and blue.
function bytesOf(colours) {
  const pixel = new OffscreenCanvas(colours.length, 1).getContext("2d");
  colours.forEach((colour, i) => { pixel.fillStyle = colour; pixel.fillRect(i, 0, 1, 1); });
  return pixel.getImageData(0, 0, colours.length, 1).data;
}

// For every node its place in a table of colours.
function colourNodes() {
  const { kind, groups, low, high } = mode();
  const index = new Uint16Array(values.length);
  if (kind === "groups") {
    const table = [...groups.map((_, i) => groupColour(i, groups.length)), GREY];
    for (let node = 0; node < index.length; node++) index[node] = Math.min(values[node], groups.length);
    colours = { index, table: bytesOf(table) };
    return;
  }
  const steps = 64, level = kind === "log" ? Math.log1p : Number;
  const span = Math.max(level(high) - level(low), 1e-9);
  const ramp = new OffscreenCanvas(steps, 1).getContext("2d");
  const gradient = ramp.createLinearGradient(0, 0, steps, 0);
  SCALE.forEach((colour, i) => gradient.addColorStop(i / (SCALE.length - 1), colour));
  ramp.fillStyle = gradient;
  ramp.fillRect(0, 0, steps, 1);
  const table = new Uint8ClampedArray(4 * (steps + 1));
  table.set(ramp.getImageData(0, 0, steps, 1).data);
  table.set(bytesOf([GREY]), 4 * steps);
  for (let node = 0; node < index.length; node++) {
    const share = (level(values[node]) - level(low)) / span;
    const unknown = Number.isNaN(share) || (kind === "share" && values[node] === NO_SHARE);
    index[node] = unknown ? steps : Math.round(Math.max(0, Math.min(1, share)) * (steps - 1));
  }
  colours = { index, table };
}

// --- drawing ---------------------------------------------------------------------------------------------------------

function draw() {
  waiting = false;
  const ratio = state.printing ? 2 : window.devicePixelRatio || 1;
  const width = Math.max(1, Math.round(canvas.clientWidth * ratio));
  const height = Math.max(1, Math.round(canvas.clientHeight * ratio));
  if (canvas.width !== width || canvas.height !== height) {
    [canvas.width, canvas.height] = [width, height];
    image = null;
  }
  image ??= context.createImageData(width, height);
  image.data.fill(0);
  drawDots(image, ratio);
  context.putImageData(image, 0, 0);
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  drawChosen();
  canvas.dataset.drawn = state.mode;
}

function drawSoon() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(draw);
}

function radius() {
  const alone = Math.max(1.1, Math.min(4, 110 / Math.sqrt(nodes.x.length)));
  return Math.min(7, alone * Math.pow(view.zoom, 0.4));
}

// How much of each pixel around the middle a dot covers, of 255.
function stamp(size) {
  const reach = Math.ceil(size), parts = [];
  for (let y = -reach; y <= reach; y++) {
    for (let x = -reach; x <= reach; x++) {
      const cover = Math.max(0, Math.min(1, size + 0.5 - Math.hypot(x, y)));
      if (cover > 0.05) parts.push([x, y, Math.round(230 * cover)]);
    }
  }
  return { reach, parts };
}

function drawDots({ data, width, height }, ratio) {
  const { reach, parts } = stamp(radius() * ratio), { index, table } = colours;
  const size = scale() * ratio, left = width / 2 - view.x * size, top = height / 2 - view.y * size;
  const grouped = mode().kind === "groups";
  for (let node = 0; node < index.length; node++) {
    const x = Math.round((nodes.x[node] / 65535) * size + left), y = Math.round((nodes.y[node] / 65535) * size + top);
    if (x < reach || y < reach || x >= width - reach || y >= height - reach) continue;
    const group = grouped ? groupOf(node) : -1;
    if (grouped && state.hidden.has(group)) continue;
    const faint = grouped && state.only >= 0 && group !== state.only ? 0.12 : 1;
    const colour = 4 * index[node];
    for (let i = 0; i < parts.length; i++) {
      const at = 4 * ((y + parts[i][1]) * width + x + parts[i][0]), cover = parts[i][2] * faint;
      const over = data[at + 3] === 0 ? 1 : cover / 255;
      data[at] += (table[colour] - data[at]) * over;
      data[at + 1] += (table[colour + 1] - data[at + 1]) * over;
      data[at + 2] += (table[colour + 2] - data[at + 2]) * over;
      data[at + 3] = Math.max(data[at + 3], cover);
    }
  }
}

function drawChosen() {
  const ink = state.printing ? "#000" : getComputedStyle(canvas).color;
  if (state.selected >= 0) {
    const [x, y] = toScreen(state.selected);
    context.strokeStyle = context.fillStyle = ink;
    context.lineWidth = 1;
    for (const [neighbour] of nearest(state.selected)) {
      const [toX, toY] = toScreen(neighbour);
      context.globalAlpha = 0.55;
      line(x, y, toX, toY);
      context.globalAlpha = 1;
      ring(toX, toY, radius() + 2.5);
    }
    context.lineWidth = 2.5;
    ring(x, y, radius() + 4);
  }
  if (state.hover >= 0 && state.hover !== state.selected) {
    context.strokeStyle = ink;
    context.lineWidth = 1.5;
    ring(...toScreen(state.hover), radius() + 3);
  }
}

function line(fromX, fromY, toX, toY) {
  context.beginPath();
  context.moveTo(fromX, fromY);
  context.lineTo(toX, toY);
  context.stroke();
}

function ring(x, y, size) {
  context.beginPath();
  context.arc(x, y, size, 0, 2 * Math.PI);
  context.stroke();
}

// --- words about nodes -----------------------------------------------------------------------------------------------

const classOf = (node) => ABOUT.classes.length && nodes.class[node] !== NONE ? ABOUT.classes[nodes.class[node]] : "";

function facts(node) {
  const found = [];
  if (ABOUT.classes.length) found.push(["class", classOf(node) || "unknown"]);
  found.push([ABOUT.degree, nodes.degree[node].toLocaleString("en")]);
  if (nodes.share && nodes.share[node] !== NO_SHARE) {
    found.push(["neighbours of its class", `${Math.round(nodes.share[node] / 2)} %`]);
  }
  if (nodes.split) found.push(["split", ABOUT.splits[nodes.split[node]]]);
  return found;
}

// The columns of the node table: those without a value are left out.
function ownFacts(node) {
  const found = [];
  ABOUT.cells.forEach(({ name, kind }, number) => {
    const { cell, begin } = cells[number];
    if (kind === "text") {
      if (cell[node] < begin.length - 1) found.push([name, textAt(cells[number], cell[node])]);
    } else if (!Number.isNaN(cell[node])) {
      found.push([name, inWords(cell[node], kind)]);
    }
  });
  return found;
}

function inWords(value, kind) {
  if (kind === "share") return `${Math.round(value / 2)} %`;
  if (kind !== "days") return String(Number(value.toPrecision(12)));
  const date = new Date(Math.round(value * 86400000));
  if (Number.isNaN(date.getTime())) return String(value);
  const [day, clock] = date.toISOString().split("T");
  return Number.isInteger(value) ? day : `${day} ${clock.slice(0, 5)}`;
}

function nearest(node) {
  if (!near) return [];
  const found = [];
  for (let i = node * ABOUT.nearest; i < (node + 1) * ABOUT.nearest; i++) {
    if (near.node[i] !== 0xffffffff) found.push([near.node[i], near.cosine[i] / 32767]);
  }
  return found;
}

function element(tag, text = "", attributes = {}) {
  const made = document.createElement(tag);
  made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function nodeName(node) {
  const name = element("bdi", idOf(node));
  name.className = "id";
  return name;
}

function factList(found) {
  const list = element("dl");
  for (const [name, value] of found) {
    list.append(element("dt", name, { dir: "auto" }), element("dd", value, { dir: "auto" }));
  }
  return list;
}

function showTip(x, y) {
  const tip = part("tip");
  tip.hidden = state.hover < 0;
  if (tip.hidden) return;
  tip.replaceChildren(nodeName(state.hover), factList(facts(state.hover)));
  tip.style.left = `${Math.max(0, Math.min(x + 14, canvas.clientWidth - tip.offsetWidth - 4))}px`;
  tip.style.top = `${y + 14 + tip.offsetHeight > canvas.clientHeight ? Math.max(0, y - tip.offsetHeight - 10) : y + 14}px`;
}

function say(text) {
  part("said").textContent = text;
}

async function select(node) {
  state.selected = node;
  if (node >= 0) {
    if (ABOUT.nearest) near ??= await unpack("map-near");
    await Promise.all(cells.map((_, number) => cellsOf(number)));
  }
  if (state.selected !== node) return;  // another one was chosen meanwhile
  const panel = part("chosen");
  panel.dataset.open = node < 0 ? "no" : "yes";
  if (node < 0) {
    if (panel.contains(document.activeElement)) canvas.focus();
    panel.replaceChildren(element("p", ABOUT.hint));
    say("Nothing is selected.");
    drawSoon();
    return;
  }
  const title = element("h3", "", { tabindex: "-1" }), held = panel.contains(document.activeElement);
  title.append(nodeName(node));
  const found = nearest(node), list = element("ol"), own = ownFacts(node);
  for (const [neighbour, cosine] of found) list.append(neighbourItem(node, neighbour, cosine));
  const close = element("button", "×", { type: "button", class: "close", "aria-label": "Close" });
  close.addEventListener("click", () => select(-1));
  panel.replaceChildren(close, title, factList(facts(node)));
  if (own.length) panel.append(element("h4", "In the node table"), factList(own));
  panel.append(element("h4", "Nearest by cosine"), list);
  panel.scrollTop = 0;
  if (held) title.focus();  // what had the focus is gone
  const same = found.filter(([neighbour]) => classOf(neighbour) === classOf(node)).length;
  const ofClass = classOf(node) ? `, ${same} of them of its class` : "";
  say(`Selected ${idOf(node)}${classOf(node) ? `, class ${classOf(node)}` : ""}; ${found.length} nearest nodes${ofClass}.`);
  bringIntoView(node);
  drawSoon();
}

function neighbourItem(node, neighbour, cosine) {
  const item = element("li"), link = element("button", "", { type: "button" });
  link.append(nodeName(neighbour));
  link.addEventListener("click", () => select(neighbour));
  item.append(link, element("span", cosine.toFixed(3), { class: "cosine" }));
  if (classOf(neighbour)) {
    const other = classOf(neighbour) !== classOf(node);
    item.append(element("span", classOf(neighbour), { class: other ? "class other" : "class", dir: "auto" }));
  }
  return item;
}

function bringIntoView(node) {
  const [x, y] = toScreen(node), edge = 20, low = canvas.clientHeight - covered();
  if (x > edge && y > edge && x < canvas.clientWidth - edge && y < low - edge) return;
  [view.x, view.y] = [nodes.x[node] / 65535, nodes.y[node] / 65535 + covered() / 2 / scale()];
}

// How much of the map the card covers from below, in pixels, where it is a sheet over the page.
function covered() {
  const panel = part("chosen");
  if (getComputedStyle(panel).position !== "fixed") return 0;
  const hidden = canvas.getBoundingClientRect().bottom - panel.getBoundingClientRect().top;
  return Math.max(0, Math.min(hidden, canvas.clientHeight - 60));
}

// --- legend ----------------------------------------------------------------------------------------------------------

function showLegend() {
  const legend = part("legend"), { kind, groups, counts, low, high, name, rest } = mode();
  legend.dataset.kind = kind === "groups" ? "groups" : "scale";
  if (kind !== "groups") {
    const bar = element("span", "", { class: "bar", role: "img", "aria-label": "from blue, low, to yellow, high" });
    bar.style.background = `linear-gradient(to right, ${SCALE.join(",")})`;
    const words = (value) => (kind === "log" ? value.toLocaleString("en") : inWords(value, kind));
    const ends = [low, high].map((value) => element("span", words(value)));
    legend.replaceChildren(element("span", name, { class: "name", dir: "auto" }), ends[0], bar, ends[1]);
    return;
  }
  const items = groups.map((group, number) => legendItem(group, number, groupColour(number, groups.length), counts[number]));
  if (counts.length > groups.length) items.push(legendItem(rest, NONE, GREY, counts[groups.length]));
  legend.replaceChildren(...items);
  if (items.length > 2) legend.append(wholeLegend("all", false), wholeLegend("none", true));
}

function legendItem(group, number, colour, count) {
  const item = element("button", "", { type: "button", "aria-pressed": !state.hidden.has(number) });
  const dot = element("span", "", { class: "dot" });
  dot.style.background = colour;
  item.append(dot, element("bdi", group), element("span", count.toLocaleString("en"), { class: "count" }));
  item.addEventListener("click", () => {
    state.hidden.has(number) ? state.hidden.delete(number) : state.hidden.add(number);
    item.setAttribute("aria-pressed", !state.hidden.has(number));
    say(`${group} is ${state.hidden.has(number) ? "hidden" : "shown"}.`);
    drawSoon();
  });
  const only = (value) => () => { state.only = value; drawSoon(); };
  for (const event of ["pointerenter", "focus"]) item.addEventListener(event, only(number));
  for (const event of ["pointerleave", "blur"]) item.addEventListener(event, only(-1));
  return item;
}

function wholeLegend(text, hide) {
  const item = element("button", text, { type: "button", class: "whole" });
  item.addEventListener("click", () => {
    const { groups, counts } = mode();
    state.hidden = new Set(hide ? [...groups.keys(), ...(counts.length > groups.length ? [NONE] : [])] : []);
    showLegend();
    [...part("legend").children].find((one) => one.textContent === text).focus();
    say(hide ? "All are hidden." : "All are shown.");
    drawSoon();
  });
  return item;
}

async function colourBy(number) {
  const { column, cell } = ABOUT.modes[number];
  const found = cell === undefined ? nodes[column] : (await cellsOf(cell)).cell;
  values = found;
  Object.assign(state, { mode: number, hidden: new Set(), only: -1 });
  colourNodes();
  showLegend();
  drawSoon();
}

// --- what the reader does --------------------------------------------------------------------------------------------

function zoomBy(factor, x = canvas.clientWidth / 2, y = canvas.clientHeight / 2) {
  const [mapX, mapY] = toMap(x, y);
  view.zoom = Math.max(0.5, Math.min(400, view.zoom * factor));
  view.x = mapX - (x - canvas.clientWidth / 2) / scale();
  view.y = mapY - (y - canvas.clientHeight / 2) / scale();
  drawSoon();
}

function panBy(dx, dy) {
  view.x = Math.max(-0.2, Math.min(1.2, view.x - dx / scale()));
  view.y = Math.max(-0.2, Math.min(1.2, view.y - dy / scale()));
  drawSoon();
}

function wholeMap() {
  Object.assign(view, { x: 0.5, y: 0.5, zoom: 1 });
  drawSoon();
}

const KEYS = {
  ArrowLeft: () => panBy(40, 0), ArrowRight: () => panBy(-40, 0), ArrowUp: () => panBy(0, 40),
  ArrowDown: () => panBy(0, -40), "+": () => zoomBy(1.4), "=": () => zoomBy(1.4), "-": () => zoomBy(1 / 1.4),
  0: wholeMap, Escape: () => select(-1),
  Enter: () => {
    const node = nodeAt(canvas.clientWidth / 2, canvas.clientHeight / 2, Math.max(canvas.clientWidth, canvas.clientHeight));
    if (node >= 0) select(node);
  },
};

function listen() {
  const held = new Map();
  let moved = 0;
  const inside = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const hover = (node, x, y) => {
    if (node !== state.hover) drawSoon();
    state.hover = node;
    canvas.style.cursor = node >= 0 ? "pointer" : "";
    showTip(x, y);
  };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    if (!held.size) moved = 0;
    held.set(event.pointerId, inside(event));
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = inside(event), before = held.get(event.pointerId);
    if (!before) {
      hover(nodeAt(x, y), x, y);
      return;
    }
    held.set(event.pointerId, [x, y]);
    moved += Math.abs(x - before[0]) + Math.abs(y - before[1]);
    if (held.size === 1 && moved > 4) panBy(x - before[0], y - before[1]);
    const other = [...held].find(([pointer]) => pointer !== event.pointerId);
    if (!other) return;
    const [otherX, otherY] = other[1];
    const apart = (at) => Math.max(1, Math.hypot(at[0] - otherX, at[1] - otherY));
    zoomBy(apart([x, y]) / apart(before), (x + otherX) / 2, (y + otherY) / 2);
  });
  canvas.addEventListener("pointerup", (event) => {
    if (held.size === 1 && moved <= 4) select(nodeAt(...inside(event)));
    held.delete(event.pointerId);
  });
  canvas.addEventListener("pointercancel", (event) => held.delete(event.pointerId));
  canvas.addEventListener("pointerleave", () => hover(-1, 0, 0));
  canvas.addEventListener("wheel", (event) => {  // the page scrolls over a map that nobody has turned to
    if (document.activeElement !== canvas && !event.ctrlKey) return;
    event.preventDefault();
    zoomBy(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.002)), ...inside(event));
  }, { passive: false });
  part("chosen").addEventListener("keydown", (event) => { if (event.key === "Escape") select(-1); });
  canvas.addEventListener("keydown", (event) => {
    const act = KEYS[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  });
  part("in").addEventListener("click", () => zoomBy(1.6));
  part("out").addEventListener("click", () => zoomBy(1 / 1.6));
  part("whole").addEventListener("click", wholeMap);
  part("colour").addEventListener("change", (event) => colourBy(Number(event.target.value)));
  part("search").addEventListener("submit", (event) => {
    event.preventDefault();
    const text = part("id").value, node = find(text);
    if (node < 0) say(`No node with the id ${text.trim()} is on the map${ABOUT.sampled ? ", which shows a sample" : ""}.`);
    else select(node);
  });
  new ResizeObserver(drawSoon).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawSoon);
  for (const [event, printing] of [["beforeprint", true], ["afterprint", false]]) {
    window.addEventListener(event, () => { state.printing = printing; draw(); });
  }
}

async function begin() {
  nodes = await unpack("map-points");
  grid = makeGrid();
  ABOUT.modes.forEach(({ name }, number) => part("colour").append(element("option", name, { value: number })));
  await colourBy(0);
  listen();
  select(-1);
  part("said").textContent = "";
  draw();
  NODE_MAP.dataset.ready = "yes";
}

begin();
