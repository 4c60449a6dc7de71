// What the parts of the page share: the data, elements, and how numbers are spelled. Names come from files of results:
// they are only ever set as text.
const results = JSON.parse(document.getElementById("data").textContent);

function element(name, { text, ...attributes } = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  made.append(...children);
  return made;
}

function select(label, names, chosen, changed) {
  const list = element("select", {}, ...names.map((name, number) => element("option", { value: number, text: name })));
  list.selectedIndex = chosen;
  list.addEventListener("change", changed);
  return { label: element("label", { text: label }, list), list };
}

function shown(value, quantity) {
  return value === null || value === undefined ? "–" : (value * quantity.scale).toFixed(quantity.digits);
}

function signed(value) {
  return value === null || value === undefined ? "–" : (value < 0 ? "−" : "+") + Math.abs(value).toFixed(4);
}

function pValue(p) {
  if (p === null || p === undefined) return "–";
  return p < 0.001 ? "< 0.001" : p.toFixed(3);
}

function valueOf(row, column, quantity) {
  const cell = results.cells[row][column];
  const cost = quantity.cost ? cell.costs?.[quantity.key] : undefined;
  return cost ?? cell.scores[quantity.key] ?? null;
}
