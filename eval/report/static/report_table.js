// The table of scores: which measures are shown, sorting, moving with the arrow keys, and what is behind a cell.
const table = document.getElementById("table");
const body = table.tBodies[0];
const headings = [...table.tHead.rows[1].cells];
const inOrder = [...body.rows];
const known = new Map(results.columns.flatMap((column) => column.quantities).map((quantity) => [quantity.key, quantity]));
const keys = [...known.values()].sort((one, other) => one.cost - other.cost); // measures first
const pressed = new Set(firstShown());

// All measures, or the first of each column where that is too wide.
function firstShown() {
  const measures = keys.filter((quantity) => !quantity.cost).map((quantity) => quantity.key);
  const wide = headings.filter((heading) => measures.includes(heading.dataset.k)).length > 16;
  return wide ? results.columns.flatMap((column) => column.quantities.slice(0, 1)).map((quantity) => quantity.key) : measures;
}

function show() {
  for (const row of [table.tHead.rows[1], ...inOrder]) {
    let group = null;
    for (const cell of row.cells) {
      if (cell.dataset.k === undefined) continue;
      cell.hidden = !pressed.has(cell.dataset.k);
      cell.classList.toggle("first", !cell.hidden && cell.dataset.c !== group);
      if (!cell.hidden) group = cell.dataset.c;
    }
  }
  for (const group of table.tHead.rows[0].cells) {
    if (group.dataset.c === undefined) continue;
    const wide = headings.filter((heading) => heading.dataset.c === group.dataset.c && !heading.hidden).length;
    group.hidden = wide === 0;
    group.colSpan = Math.max(wide, 1);
  }
}

function chip(quantity) {
  const made = element("button", { type: "button", class: "chip", text: quantity.heading });
  made.setAttribute("aria-pressed", pressed.has(quantity.key));
  made.addEventListener("click", () => {
    if (!pressed.delete(quantity.key)) pressed.add(quantity.key);
    made.setAttribute("aria-pressed", pressed.has(quantity.key));
    show();
  });
  return made;
}

function sort(heading) {
  const place = headings.indexOf(heading);
  const quantity = place < 0 ? null : results.columns[heading.dataset.c].quantities.find((q) => q.key === heading.dataset.k);
  const first = quantity && quantity.best !== "lowest" ? "descending" : "ascending";
  const other = first === "descending" ? "ascending" : "descending";
  const order = heading.getAttribute("aria-sort") === first ? other : first;
  table.querySelectorAll("[aria-sort]").forEach((cell) => cell.removeAttribute("aria-sort"));
  heading.setAttribute("aria-sort", order);
  const sign = order === "ascending" ? 1 : -1;
  const value = (row) => (place < 0 ? inOrder.indexOf(row) : Number(row.cells[place + 1].dataset.v ?? NaN));
  const compared = (a, b) => Number.isNaN(a) - Number.isNaN(b) || sign * (a - b) || 0; // what has no number comes last
  body.append(...[...inOrder].sort((a, b) => compared(value(a), value(b))));
}

function move(event) {
  const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  const cell = event.target.closest("td");
  if (!cell) return;
  if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    details(cell);
  }
  if (!(event.key in steps)) return;
  event.preventDefault();
  const [down, right] = steps[event.key];
  const row = body.rows[cell.parentElement.sectionRowIndex + down];
  let place = cell.cellIndex + right;
  while (row?.cells[place]?.hidden) place += right;
  const next = row?.cells[place];
  if (next?.localName === "td") focusOn(next);
}

function focusOn(cell) {
  body.querySelectorAll('td[tabindex="0"]').forEach((old) => old.setAttribute("tabindex", "-1"));
  cell.setAttribute("tabindex", "0");
  cell.focus();
}

const dialog = element("dialog", { "aria-labelledby": "opened" });
dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
document.body.append(dialog);

function details(td) {
  const number = Number(td.parentElement.dataset.r);
  const row = results.rows[number];
  const column = results.columns[td.dataset.c];
  const cell = results.cells[number][td.dataset.c];
  const close = element("button", { type: "button", class: "button close", text: "Close" });
  close.addEventListener("click", () => dialog.close());
  dialog.replaceChildren(close, element("h2", { id: "opened", text: `${row.name}, ${column.name}` }));
  const about = [row.kind === "published" && `Published: ${row.source}`, row.note, cell.error && `✗ failed: ${cell.error}`];
  dialog.append(...about.filter(Boolean).map((text) => element("p", { text })));
  const lines = column.quantities.map((quantity) => line(cell, number, td.dataset.c, quantity)).filter(Boolean);
  const head = ["", "value", results.baseline ? `− ${results.baseline}` : "", results.baseline ? "p" : "", ""];
  if (cell.expected) head[4] = "expected";
  const cells = (texts, name) => texts.map((text, i) => element(name, { text, ...(i && { class: "number" }) }));
  const rows = [element("tr", {}, ...cells(head, "th")), ...lines.map((line) => element("tr", {}, ...cells(line, "td")))];
  if (lines.length) dialog.append(element("div", { class: "scroll" }, element("table", {}, ...rows)));
  if (cell.commands?.length) dialog.append(...commands(cell.commands));
  dialog.showModal();
}

function line(cell, row, column, quantity) {
  const value = valueOf(row, column, quantity);
  if (value === null) return null;
  const { key } = quantity;
  const expected = cell.expected?.[key];
  const verdict = expected === undefined ? "" : `${shown(expected, quantity)} ${results.verdicts[cell.verdicts?.[key]] ?? ""}`;
  const compared = cell.difference?.[key];
  const [difference, p] = compared === undefined ? ["", ""] : [signed(compared), pValue(cell.p?.[key])];
  return [quantity.heading, shown(value, quantity), difference, p, verdict];
}

function commands(lines) {
  const text = element("pre", { tabindex: "0", text: lines.join("\n") });
  const copy = element("button", { type: "button", class: "button", text: "Copy" });
  copy.addEventListener("click", () => {
    const done = () => (copy.textContent = "Copied");
    const marked = () => getSelection().selectAllChildren(text); // where a page from disk may not use the clipboard
    if (navigator.clipboard) navigator.clipboard.writeText(lines.join("\n")).then(done, marked);
    else marked();
  });
  return [element("h3", { text: "By hand" }), text, copy];
}

table.classList.add("live");
table.setAttribute("role", "grid");
document.getElementById("shown").append(...keys.map(chip));
for (const heading of [table.tHead.rows[0].cells[0], ...headings])
  heading.querySelector("button").addEventListener("click", () => sort(heading));
body.addEventListener("click", (event) => event.target.closest("td") && details(event.target.closest("td")));
body.addEventListener("keydown", move);
body.querySelectorAll("td").forEach((cell) => cell.setAttribute("tabindex", "-1"));
body.querySelector("td")?.setAttribute("tabindex", "0");
show();
