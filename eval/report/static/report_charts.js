// Parts of charts in SVG: axes, shapes, and a tip that names the point under the pointer or chosen with arrow keys.
const NS = "http://www.w3.org/2000/svg";

function drawn(name, attributes = {}, text) {
  const made = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function stepOf(span) {
  const power = 10 ** Math.floor(Math.log10(span / 4));
  return power * ([1, 2, 5].find((factor) => span / (factor * power) <= 5.5) ?? 10);
}

// From values to pixels, with ticks: logarithmic where the values above 0 differ by more than 20 times.
function scale(values, start, end, { log = false } = {}) {
  const low = Math.min(...values);
  const high = Math.max(...values);
  if (log && low > 0 && high > 20 * low) {
    const [a, b] = [Math.log10(low) - 0.08, Math.log10(high) + 0.08];
    const ticks = [];
    for (let power = Math.floor(a); power <= b; power++)
      for (const factor of [1, 2, 5]) ticks.push(factor * 10 ** power);
    const place = (value) => start + ((Math.log10(value) - a) / (b - a)) * (end - start);
    return { place, ticks: ticks.filter((t) => Math.log10(t) >= a && Math.log10(t) <= b).map((t) => [t, `${+t.toPrecision(1)}`]) };
  }
  const step = stepOf(high - low || Math.abs(high) || 1);
  const a = step * Math.floor(low / step + 1e-9);
  const b = Math.max(step * Math.ceil(high / step - 1e-9), a + step);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const ticks = Array.from({ length: Math.round((b - a) / step) + 1 }, (_, number) => a + number * step);
  return { place: (value) => start + ((value - a) / (b - a)) * (end - start), ticks: ticks.map((t) => [t, t.toFixed(digits)]) };
}

function axes(svg, x, y, box, labels) {
  for (const [value, text] of y.ticks) {
    const at = y.place(value);
    svg.append(drawn("line", { class: "grid", x1: box.left, x2: box.right, y1: at, y2: at }));
    svg.append(drawn("text", { x: box.left - 6, y: at + 4, "text-anchor": "end" }, text));
  }
  let free = -Infinity;
  for (const [value, text] of x.ticks) {
    const at = x.place(value);
    if (at - text.length * 4 < free) continue; // there is no room for this one
    free = at + text.length * 4 + 4;
    svg.append(drawn("text", { x: at, y: box.bottom + 16, "text-anchor": "middle" }, text));
  }
  svg.append(drawn("text", { x: (box.left + box.right) / 2, y: box.bottom + 36, "text-anchor": "middle" }, labels.x));
  svg.append(drawn("text", { x: 0, y: 12 }, labels.y));
}

const SHAPES = [
  (r) => `M${-r} 0a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`,
  (r) => `M${-r} ${-r}h${2 * r}v${2 * r}h${-2 * r}z`,
  (r) => `M0 ${-1.2 * r}L${1.1 * r} ${0.8 * r}H${-1.1 * r}z`,
  (r) => `M0 ${-1.35 * r}L${1.35 * r} 0L0 ${1.35 * r}L${-1.35 * r} 0z`,
  (r) => `M0 ${1.2 * r}L${1.1 * r} ${-0.8 * r}H${-1.1 * r}z`,
  (r) => `M${-r} ${-r / 3}h${r * 2 / 3}v${-r * 2 / 3}h${r * 2 / 3}v${r * 2 / 3}h${r * 2 / 3}v${r * 2 / 3}h${-r * 2 / 3}v${r * 2 / 3}h${-r * 2 / 3}v${-r * 2 / 3}h${-r * 2 / 3}z`,
  (r) => `M${1.2 * r} 0L${-0.8 * r} ${1.1 * r}V${-1.1 * r}z`,
];

function shape(number, x = 0, y = 0, r = 5) {
  const at = { class: "point", d: SHAPES[number % SHAPES.length](r), transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})` };
  return drawn("path", at);
}

const colour = (number) => `c${number % 8}`;

// points: [{x, y, mark, text}]; the nearest to the pointer is named, or with the arrow keys the one before or after.
function named(figure, svg, points) {
  const tip = element("div", { class: "tip", role: "status" });
  tip.hidden = true;
  figure.append(tip);
  let current = -1;
  const pick = (number) => {
    points[current]?.mark.classList.remove("picked");
    current = number;
    const point = points[number];
    tip.hidden = !point;
    if (!point) return;
    point.mark.classList.add("picked");
    tip.textContent = point.text;
    tip.style.left = `${Math.max(0, Math.min(point.x + 12, figure.clientWidth - tip.offsetWidth))}px`;
    const above = point.y - tip.offsetHeight - 10;
    tip.style.top = `${above < 0 ? point.y + 14 : above}px`;
  };
  const nearest = (event) => {
    const place = svg.getBoundingClientRect();
    const away = (point) => Math.hypot(point.x - event.clientX + place.left, point.y - event.clientY + place.top);
    const best = points.reduce((nearest, point, number) => (away(point) < away(points[nearest]) ? number : nearest), 0);
    pick(points.length && away(points[best]) < 28 ? best : -1);
  };
  svg.setAttribute("tabindex", "0");
  svg.addEventListener("pointermove", nearest);
  svg.addEventListener("pointerdown", nearest);
  svg.addEventListener("pointerleave", () => pick(-1));
  svg.addEventListener("blur", () => pick(-1));
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step || !points.length) return;
    event.preventDefault();
    pick(current < 0 ? (step > 0 ? 0 : points.length - 1) : (current + step + points.length) % points.length);
  });
}

// Draws again when the room changes.
function fitted(figure, draw) {
  let wide = 0;
  new ResizeObserver(() => {
    if (figure.clientWidth === wide) return;
    wide = figure.clientWidth;
    draw();
  }).observe(figure);
}

function emptied(figure, height, label) {
  const width = Math.max(figure.clientWidth, 240);
  const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": label });
  figure.replaceChildren(svg);
  return { svg, box: { left: 46, right: width - 12, top: 26, bottom: height - 44 } };
}
