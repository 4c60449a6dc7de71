// The two figures: quality against cost, and one row against another query by query.
function tradeoff(section) {
  const withCosts = results.columns.map((column, number) => number).filter((number) => costsOf(number).length);
  if (!withCosts.length) return;
  section.hidden = false;
  const figure = element("figure", { class: "chart" });
  const legend = element("ul", { class: "keys" });
  const column = select("Column", withCosts.map((number) => results.columns[number].name), 0, fill);
  const quality = select("Quality", [], -1, draw);
  const cost = select("Cost", [], -1, draw);
  section.append(element("div", { class: "controls" }, column.label, quality.label, cost.label), figure, legend);

  function costsOf(number) {
    const drawable = (q) => q.cost && results.rows.some((_, row) => valueOf(row, number, q) !== null);
    return results.columns[number].quantities.filter(drawable);
  }
  function choices() {
    const number = withCosts[column.list.selectedIndex];
    return { number, qualities: results.columns[number].quantities.filter((q) => !q.cost), costs: costsOf(number) };
  }
  function fill() {
    const { qualities, costs } = choices();
    for (const [list, offered] of [[quality.list, qualities], [cost.list, costs]]) {
      const before = list.selectedOptions[0]?.textContent;
      list.replaceChildren(...offered.map((q) => element("option", { text: q.heading })));
      list.selectedIndex = Math.max(0, offered.findIndex((q) => q.heading === before));
    }
    draw();
  }
  function draw() {
    const { number, qualities, costs } = choices();
    const [qx, qy] = [costs[cost.list.selectedIndex], qualities[quality.list.selectedIndex]];
    const lines = new Map(); // every row's curve has the same colour and shape in every column
    results.rows.forEach((row, r) => {
      const name = row.curve ?? row.name;
      if (!lines.has(name)) lines.set(name, []);
      const [a, b] = [valueOf(r, number, qx), valueOf(r, number, qy)];
      if (a !== null && b !== null) lines.get(name).push({ a: a * qx.scale, b, r });
    });
    const { svg, box } = emptied(figure, figure.clientWidth < 480 ? 320 : 420, `${qy.heading} against ${qx.heading}`);
    const every = [...lines.values()].flat();
    if (!every.length) return;
    const x = scale(every.map((point) => point.a), box.left + 10, box.right - 10, { log: true });
    const y = scale(every.map((point) => point.b), box.bottom, box.top);
    axes(svg, x, y, box, { x: qx.heading, y: qy.heading });
    const points = [];
    [...lines].forEach(([name, places], index) => {
      const group = drawn("g", { class: colour(index) });
      svg.append(group);
      places.sort((one, other) => one.a - other.a);
      const at = places.map((point) => [x.place(point.a), y.place(point.b)]);
      if (at.length > 1) group.append(drawn("polyline", { class: "line", points: at.join(" ") }));
      places.forEach((point, place) => {
        const mark = shape(index, ...at[place]);
        group.append(mark);
        const values = `${qy.heading} ${shown(point.b, qy)}, ${qx.heading} ${point.a.toFixed(qx.digits)}`;
        points.push({ x: at[place][0], y: at[place][1], mark, name: results.rows[point.r].name, text: `${results.rows[point.r].name}\n${values}` });
      });
    });
    labels(svg, points, box);
    named(figure, svg, points.sort((one, other) => one.x - other.x));
    legend.replaceChildren(...[...lines].map(([name, places], index) => places.length && key(name, index)).filter(Boolean));
  }
  function key(name, index) {
    const icon = drawn("svg", { viewBox: "-7 -7 14 14", class: colour(index), "aria-hidden": "true" });
    icon.append(shape(index));
    return element("li", { class: "chart" }, icon, name);
  }
  fill();
  fitted(figure, draw);
}

// Names beside their points where there is room; the others are in the legend and in the tip.
function labels(svg, points, box) {
  const taken = points.map((point) => [point.x - 6, point.y - 6, point.x + 6, point.y + 6]);
  for (const point of points) {
    const text = drawn("text", { class: "label" }, point.name);
    svg.append(text);
    const wide = text.getComputedTextLength();
    const spots = [[8, 4], [-8 - wide, 4], [-wide / 2, -9], [-wide / 2, 17]];
    const areas = spots.map(([right, down]) => [point.x + right, point.y + down - 10, point.x + right + wide, point.y + down + 3]);
    const free = (a) => !taken.some((o) => a[0] < o[2] && a[2] > o[0] && a[1] < o[3] && a[3] > o[1]);
    const inside = (a) => a[0] >= box.left && a[2] <= box.right + 10 && a[1] >= 14 && a[3] <= box.bottom;
    const area = areas.find((a) => inside(a) && free(a));
    if (area) {
      taken.push(area);
      text.setAttribute("x", area[0]);
      text.setAttribute("y", area[3] - 3);
    } else text.remove();
  }
}

function scatter(section) {
  const measured = (number) => Object.values(results.queries[number].values).slice(0, 1).flatMap((rows) => rows.map((row, r) => r).filter((r) => rows[r]));
  const usable = results.columns.map((column, number) => number).filter((number) => measured(number).length > 1);
  if (!usable.length) return;
  section.hidden = false;
  const figure = element("figure", { class: "chart" });
  const summary = element("p", { role: "status" });
  const most = element("div", { class: "scroll", tabindex: "0" });
  const column = select("Column", usable.map((number) => results.columns[number].name), 0, fill);
  const measure = select("Measure", [], -1, draw);
  const across = select("Row across", [], -1, draw);
  const up = select("Row up", [], -1, draw);
  const controls = [column, measure, across, up].map((control) => control.label);
  section.append(element("div", { class: "controls" }, ...controls), summary, element("div", { class: "beside" }, figure, most));

  function choices() {
    const number = usable[column.list.selectedIndex];
    return { number, rows: measured(number), measures: results.columns[number].quantities.filter((q) => !q.cost) };
  }
  function fill() {
    const { rows, measures } = choices();
    const names = rows.map((r) => results.rows[r].name);
    const offered = [[measure.list, measures.map((q) => q.heading), 0], [across.list, names, names.indexOf(results.baseline)], [up.list, names, names.length - 1]];
    for (const [list, texts, usual] of offered) {
      const before = texts.indexOf(list.selectedOptions[0]?.textContent);
      list.replaceChildren(...texts.map((text) => element("option", { text })));
      list.selectedIndex = Math.max(0, before < 0 ? usual : before);
    }
    draw();
  }
  function pairs(number, key, rows) {
    const { ids, values } = results.queries[number];
    const [a, b] = [across, up].map((control) => values[key][rows[control.list.selectedIndex]] ?? []);
    const both = ids.map((id, i) => ({ id, a: a[i] ?? null, b: b[i] ?? null }));
    return both.filter((pair) => pair.a !== null && pair.b !== null);
  }
  function draw() {
    const { number, rows, measures } = choices();
    const quantity = measures[measure.list.selectedIndex];
    const [nameA, nameB] = [across, up].map((control) => control.list.selectedOptions[0].textContent);
    if (!results.queries[number].values[quantity.key]) return load(number, quantity);
    const queries = pairs(number, quantity.key, rows);
    say(queries, nameA, nameB, quantity);
    const side = Math.min(figure.clientWidth || 480, 560);
    const { svg, box } = emptied(figure, side, `${nameB} against ${nameA}, ${quantity.heading} of each query`);
    box.right = Math.min(box.right, side - 12);
    if (!queries.length) return;
    const values = queries.flatMap((query) => [query.a, query.b]);
    const limits = [Math.min(0, ...values), Math.max(...values) <= 1 ? 1 : Math.max(...values)];
    const [x, y] = [scale(limits, box.left + 8, box.right - 8), scale(limits, box.bottom - 8, box.top + 8)];
    axes(svg, x, y, box, { x: nameA, y: nameB });
    const [low, high] = [x.ticks[0][0], x.ticks.at(-1)[0]];
    svg.append(drawn("line", { class: "diagonal", x1: x.place(low), y1: y.place(low), x2: x.place(high), y2: y.place(high) }));
    const places = grouped(queries);
    const points = [...places.values()].map((here) => {
      const [cx, cy] = [x.place(here[0].a), y.place(here[0].b)];
      const mark = drawn("circle", { class: "dot", cx, cy, r: Math.min(3 + 1.4 * Math.sqrt(here.length), 16) });
      const ids = here.slice(0, 12).map((query) => query.id).join(", ") + (here.length > 12 ? `, and ${here.length - 12} more` : "");
      const text = `${ids}\n${nameA}: ${shown(here[0].a, quantity)}\n${nameB}: ${shown(here[0].b, quantity)}`;
      return { x: cx, y: cy, mark, text, gain: here[0].b - here[0].a };
    });
    svg.append(...points.map((point) => point.mark));
    named(figure, svg, points.sort((one, other) => one.gain - other.gain));
  }
  // Values in other measures are in scripts beside the page: a page from disk may load scripts, but fetch nothing.
  function load(number, quantity) {
    const file = results.queries[number].files[quantity.key];
    summary.textContent = file ? `Loading ${file} …` : `No values of single queries in ${quantity.heading}.`;
    most.replaceChildren();
    figure.replaceChildren();
    if (!file) return;
    const script = element("script", { src: file });
    script.addEventListener("load", draw);
    script.addEventListener("error", () => (summary.textContent = `${file} is missing beside this page: copy the whole folder.`));
    document.head.append(script);
  }
  globalThis.queryValues = (number, key, rows) => (results.queries[number].values[key] = rows);
  function grouped(queries) {
    const places = new Map();
    for (const query of queries) places.set(`${query.a} ${query.b}`, [...(places.get(`${query.a} ${query.b}`) ?? []), query]);
    return places;
  }
  function say(queries, nameA, nameB, quantity) {
    const gains = queries.map((query) => query.b - query.a);
    const [better, worse] = [gains.filter((gain) => gain > 0).length, gains.filter((gain) => gain < 0).length];
    const mean = gains.reduce((sum, gain) => sum + gain, 0) / Math.max(gains.length, 1);
    summary.textContent = `${nameB} is better than ${nameA} for ${better} queries, equal for ${gains.length - better - worse}, worse for ${worse}; on average ${signed(mean)} ${quantity.heading}.`;
    const sorted = [...queries].sort((one, other) => one.b - one.a - (other.b - other.a));
    const shownRows = sorted.length > 10 ? [...sorted.slice(0, 5), ...sorted.slice(-5)] : sorted;
    const cells = (texts, name) => texts.map((text, i) => element(name, { text, ...(i && { class: "number" }) }));
    const line = (query) => element("tr", {}, ...cells([query.id, shown(query.a, quantity), shown(query.b, quantity), signed(query.b - query.a)], "td"));
    const head = element("thead", {}, element("tr", {}, ...cells(["Query", nameA, nameB, "Difference"], "th")));
    const caption = element("caption", { text: "The largest losses and gains" });
    most.replaceChildren(element("table", {}, caption, head, element("tbody", {}, ...shownRows.map(line))));
  }
  fill();
  fitted(figure, draw);
}

tradeoff(document.getElementById("tradeoff"));
scatter(document.getElementById("queries"));
