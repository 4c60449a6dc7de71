// The page. All content comes from the JSON API of the same server and is only ever set as text.
const byId = (id) => document.getElementById(id);
const TERMS = 40; // shown for a text; the number of the others is given

function element(name, { text, ...attributes } = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  made.append(...children);
  return made;
}

async function call(path, body) {
  const options = body && { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new Error("the server does not answer; is it still running?");
  }
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error);
  return answer;
}

// Only the latest call of each kind may update the page; late answers are ignored.
const latest = {};
async function act(kind, work) {
  const turn = (latest[kind] = (latest[kind] ?? 0) + 1);
  byId("problem").hidden = true;
  try {
    await work(() => latest[kind] === turn);
  } catch (error) {
    if (latest[kind] !== turn) return;
    byId("status").textContent = "";
    byId("problem").textContent = error.message;
    byId("problem").hidden = false;
    if (byId("explanation").open) byId("explanation").close();
  }
}

const amount = (value) => (Number.isInteger(value) ? value.toLocaleString("en") : Number(value.toPrecision(4)).toString());
const percent = (share) => `${(100 * share).toFixed(1)} %`;
const milliseconds = (value) => (value < 10 ? value.toFixed(1) : value.toFixed(0));
const value = (term) => term.impact ?? term.weight ?? 0;

// ---- terms and texts ----

function sourceOf(term) {
  const total = term.words.reduce((sum, share) => sum + share.weight, 0);
  const named = term.words.slice(0, 5).map((share) => {
    const part = share.part ? ` (${share.part})` : "";
    return term.words.length > 1 && total > 0 ? `${share.word} ${(100 * share.weight / total).toFixed(0)} %${part}` : share.word + part;
  });
  if (term.words.length > 5) named.push(`${term.words.length - 5} more`);
  const gate = term.gate.length ? `; gate opened by ${term.gate.slice(0, 3).map((share) => share.word).join(", ")}` : "";
  return named.join(", ") + gate;
}

function termList(title, terms) {
  if (!terms.length) return [];
  const items = terms.slice(0, TERMS).map((term) => {
    const from = sourceOf(term);
    const shown = term.literal === null && term.words.length ? `${term.term} ← ${term.words.slice(0, 2).map((share) => share.word).join(", ")}` : term.term;
    return element("li", from ? { title: `from ${from}` } : {}, `${shown} `, element("b", { text: amount(value(term)) }));
  });
  if (terms.length > TERMS) items.push(element("li", { text: `${terms.length - TERMS} more` }));
  return [element("h3", { text: `${title} (${terms.length})` }), element("ul", { class: "terms" }, ...items)];
}

// Literal and expansion terms apart (dimensions that are not tokens in one list), then the words that each comes from.
function termLists(weighed) {
  const terms = weighed.terms.filter((term) => value(term) > 0);
  const spelled = terms.some((term) => term.literal !== null);
  const lists = spelled
    ? [...termList("Literal terms", terms.filter((term) => term.literal !== false)),
      ...termList("Expansion terms", terms.filter((term) => term.literal === false))]
    : termList(terms.some((term) => term.words.length) ? "Dimensions, with their words" : "Terms", terms);
  const sourced = terms.filter((term) => term.words.length);
  return sourced.length ? [...lists, sourceTable(sourced)] : lists;
}

function table(heads, rows) {
  return element("div", { class: "scroll" }, element("table", {},
    element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...rows.map((cells) => element("tr", {}, ...cells)))));
}

function sourceTable(terms) {
  const heads = [element("th", { text: "term" }), element("th", { class: "number", text: "weight" }), element("th", { text: "words it comes from" })];
  const rows = terms.slice(0, TERMS).map((term) => [element("td", { text: term.term }),
    element("td", { class: "number", text: amount(value(term)) }), element("td", { text: sourceOf(term) })]);
  return element("details", { class: "sources" }, element("summary", { text: "Where the weights come from" }), table(heads, rows));
}

function marked(weighed, sequence, weightOf) {
  const text = sequence === 0 ? weighed.text ?? "" : weighed.expanded;
  const characters = Array.from(text); // offsets count code points
  const words = weighed.words.filter((word) => word.sequence === sequence).sort((a, b) => a.start - b.start);
  const heaviest = Math.max(...weighed.words.map(weightOf), 0);
  const box = element("p", { class: "text" });
  let end = 0;
  for (const word of words) {
    if (word.start < end || !(weightOf(word) > 0)) continue;
    const mark = element("mark", { text: characters.slice(word.start, word.end).join(""), title: amount(weightOf(word)) });
    mark.style.setProperty("--share", (0.15 + 0.7 * weightOf(word) / heaviest).toFixed(2));
    box.append(characters.slice(end, word.start).join(""), mark);
    end = word.end;
  }
  box.append(characters.slice(end).join(""));
  return box;
}

function texts(weighed, weightOf) {
  const boxes = weighed.notes.map((note) => element("p", { class: "soft", text: note }));
  if (weighed.text !== null) boxes.push(marked(weighed, 0, weightOf));
  if (weighed.expanded) boxes.push(element("h3", { text: "Text that expands it" }), marked(weighed, 1, weightOf));
  return boxes;
}

// ---- search ----

const state = { judged: null, systems: [], overview: null };

function chosenSystems() {
  return [...new Set([byId("left").value, byId("right").value].filter(Boolean))];
}

function search(judged = null) {
  const query = byId("query").value;
  const systems = chosenSystems();
  if (!query.trim()) return byId("query").focus();
  state.judged = judged;
  const address = new URLSearchParams({ query, left: byId("left").value, right: byId("right").value });
  if (judged) address.set("id", judged.id);
  history.replaceState(null, "", `?${address}`);
  act("search", async (current) => {
    byId("status").textContent = "Searching …";
    const answer = await call("search", { query, systems, query_id: judged?.id ?? null });
    if (!current()) return;
    byId("status").textContent = "";
    showRelevant(answer.relevant, judged);
    byId("results").className = systems.length === 1 ? "one" : "";
    byId("results").replaceChildren(...answer.rankings.map((ranking) => rankingOf(ranking, query)));
    await Promise.all(systems.map((system) => showTerms(system, query, current)));
  });
}

function rankingOf(ranking, query) {
  const encoding = ranking.encode_ms === null ? "" : `encoding ${milliseconds(ranking.encode_ms)} ms, `;
  const hits = ranking.hits.map((hit) => hitOf(hit, ranking.system, query));
  return element("section", { class: "system", "data-system": ranking.system },
    element("header", {}, element("h2", { text: ranking.system }),
      element("p", { class: "soft latency", text: `${encoding}searching ${milliseconds(ranking.search_ms)} ms` }),
      element("div", { class: "query-terms" })),
    hits.length ? element("ol", { class: "hits" }, ...hits) : element("p", { text: "No document has a term of the query." }));
}

function changeOf(hit) {
  const [other] = Object.entries(hit.ranks);
  if (!other) return [];
  const [name, rank] = other;
  if (rank === null) return [element("span", { class: "tag", text: "only here", title: `not among the first 100 of ${name}` })];
  if (rank === hit.rank) return [element("span", { class: "tag", text: "=", title: `the same rank in ${name}` })];
  const up = rank > hit.rank;
  return [element("span", { class: up ? "up" : "down", text: `${up ? "▲" : "▼"}${Math.abs(rank - hit.rank)}`, title: `rank ${rank} in ${name}` })];
}

function gradeOf(hit) {
  if (!state.judged || hit.grade === null) return [];
  const relevant = hit.grade > 0;
  return [element("span", { class: relevant ? "relevant" : "tag", text: relevant ? `✓ relevant (${hit.grade})` : "judged not relevant" })];
}

function hitOf(hit, system, query) {
  const button = element("button", { type: "button", "data-id": hit.id },
    element("span", { class: "line" },
      element("span", { class: "rank", text: hit.rank }), element("span", { class: "id", text: hit.id }),
      ...gradeOf(hit), ...changeOf(hit), element("span", { class: "number", text: amount(hit.score) })),
    element("span", { class: "snippet", text: hit.text === null ? "" : hit.text + (hit.cut ? " …" : "") }));
  button.addEventListener("click", () => explain(system, query, hit.id));
  return element("li", { class: "hit" }, button);
}

async function showTerms(system, query, current) {
  const weighed = await call("encode", { text: query, system, side: "query" });
  if (!current()) return;
  const section = [...byId("results").children].find((child) => child.dataset.system === system);
  section?.querySelector(".query-terms").replaceChildren(...termLists(weighed));
}

function showRelevant(relevant, judged) {
  if (!judged) return byId("relevant").replaceChildren();
  const rows = relevant.map((document) => {
    const ranks = Object.entries(document.ranks).map(([system, rank]) => `${system}: ${rank ?? "not among 100"}`);
    return element("li", { text: `${document.id} (grade ${document.grade}) – rank in ${ranks.join(", ")}` });
  });
  byId("relevant").replaceChildren(element("details", {},
    element("summary", { text: `Query ${judged.id}: ${relevant.length} relevant ${relevant.length === 1 ? "document" : "documents"}` }),
    element("ul", {}, ...rows)));
}

function listJudged() {
  act("judged", async (current) => {
    const answer = await call(`queries?${new URLSearchParams({ contains: byId("filter").value })}`);
    if (!current()) return;
    const shown = answer.queries.length < answer.total ? `, the first ${answer.queries.length} are shown` : "";
    byId("judged-count").textContent = `${answer.total.toLocaleString("en")} ${answer.total === 1 ? "query" : "queries"} of ${state.overview.collection}, ${state.overview.split}${shown}`;
    byId("judged-list").replaceChildren(...answer.queries.map((query) => {
      const button = element("button", { type: "button", text: query.text || query.id });
      button.append(element("span", { class: "tag", text: `  ${query.relevant} relevant` }));
      button.addEventListener("click", () => {
        byId("query").value = query.text;
        byId("judged").open = false;
        search(query);
      });
      return element("li", {}, button);
    }));
  });
}

// ---- explanation of a hit ----

function explain(system, query, id) {
  const dialog = byId("explanation");
  byId("explanation-title").textContent = `${id} – ${system}`;
  byId("explained").replaceChildren(element("p", { class: "soft", text: "Explaining …" }));
  if (!dialog.open) dialog.showModal();
  act("explain", async (current) => {
    const answer = await call("explain", { query, system, document: id });
    if (current()) byId("explained").replaceChildren(...explanationOf(answer));
  });
}

function explanationOf({ score, document }) {
  const largest = Math.max(...score.terms.map((term) => term.product), 0);
  const rows = score.terms.map((term) => {
    const share = percent(score.total ? term.product / score.total : 0);
    const fill = element("span", { class: "fill", title: share });
    fill.style.width = `${largest > 0 ? 100 * term.product / largest : 0}%`;
    const kind = term.literal === false ? "expansion" : term.literal ? "literal" : "";
    const words = [term.word_in_query, term.word_in_document].map((word) => element("td", { text: word ?? "" }));
    return [element("td", { text: term.term }, kind ? element("span", { class: "tag", text: ` ${kind}` }) : ""),
      element("td", { class: "number", text: share }), element("td", { class: "bar" }, fill),
      element("td", { class: "number", text: `${amount(term.query)} · ${amount(term.document)}` }), ...words];
  });
  const heads = ["term", "share", "", "query · document"].map((text, at) => element("th", { text, class: at % 2 ? "number" : at ? "bar" : "term" }));
  heads.push(...["query's word", "document's word"].map((text) => element("th", { text })));
  const signals = Object.entries(score.signals).map(([name, share]) => `${name} ${percent(share)}`).join(", ");
  const missing = Object.keys(score.only_in_query);
  const absent = missing.length ? `; not in the document: ${missing.slice(0, TERMS).join(", ")}${missing.length > TERMS ? " …" : ""}` : "";
  return [
    element("p", { text: `Score ${amount(score.total)}${signals && ` (${signals})`}, from ${score.terms.length} of ${score.terms.length + missing.length} terms of the query${absent}` }),
    ...texts(document, (word) => word.score),
    element("h3", { text: "Share of each term in the score" }),
    table(heads, rows),
    element("details", {}, element("summary", { text: `All ${document.terms.length.toLocaleString("en")} terms of the document` }), ...termLists(document)),
  ];
}

// ---- any text ----

function weigh() {
  const text = byId("text").value;
  if (!text.trim()) return byId("text").focus();
  act("weigh", async (current) => {
    byId("weighed").replaceChildren(element("p", { class: "soft", text: "Weighing …" }));
    let answer;
    try {
      answer = await call("encode", { text, system: byId("weigh-system").value, side: byId("side").value });
    } catch (error) {
      if (current()) byId("weighed").replaceChildren();
      throw error;
    }
    if (!current()) return;
    byId("weighed").replaceChildren(...texts(answer, (word) => word.weight), ...termLists(answer));
  });
}

// ---- keyboard and start ----

function show(section) {
  for (const name of ["search", "weigh"]) {
    byId(name).hidden = name !== section;
    byId(`tab-${name}`).setAttribute("aria-pressed", name === section);
  }
  byId(section === "search" ? "query" : "text").focus();
}

function move(down, across) {
  const columns = [...document.querySelectorAll("#results .system")].map((column) => [...column.querySelectorAll(".hit > button")]);
  const from = columns.findIndex((column) => column.includes(document.activeElement));
  const start = from < 0 ? 0 : from;
  const column = columns[Math.min(Math.max(start + across, 0), columns.length - 1)] ?? [];
  const row = from < 0 ? 0 : columns[from].indexOf(document.activeElement) + down;
  column[Math.min(Math.max(row, 0), column.length - 1)]?.focus();
}

const KEYS = { j: [1, 0], k: [-1, 0], l: [0, 1], h: [0, -1] };
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || byId("explanation").open) return;
  if (event.target.matches("input, textarea, select")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (event.key === "/") show("search");
  else if (event.key in KEYS && !byId("search").hidden) move(...KEYS[event.key]);
  else return;
  event.preventDefault();
});

function start() {
  byId("query-form").addEventListener("submit", (event) => { event.preventDefault(); search(); });
  byId("weigh-form").addEventListener("submit", (event) => { event.preventDefault(); weigh(); });
  for (const id of ["left", "right"]) byId(id).addEventListener("change", () => byId("query").value.trim() && search(state.judged));
  byId("query").addEventListener("input", () => { state.judged = null; });
  for (const name of ["search", "weigh"]) byId(`tab-${name}`).addEventListener("click", () => show(name));
  byId("judged").addEventListener("toggle", () => byId("judged").open && listJudged());
  byId("filter").addEventListener("input", listJudged);
  act("start", async () => {
    const overview = (state.overview = await call("systems"));
    const names = overview.systems.map((system) => system.name);
    const given = new URLSearchParams(location.search);
    const other = overview.systems.find((system) => system.scoring !== overview.systems[0].scoring);
    const second = other?.name ?? names[1] ?? "";
    for (const [id, chosen, none] of [["left", names[0], false], ["right", second, true], ["weigh-system", names[0], false]]) {
      byId(id).append(...names.map((name) => element("option", { value: name, text: name })));
      if (none) byId(id).append(element("option", { value: "", text: "none" }));
      byId(id).value = names.includes(given.get(id)) ? given.get(id) : chosen;
    }
    byId("notes").replaceChildren(...overview.notes.map((note) => element("li", { text: note })));
    byId("judged").hidden = overview.collection === null;
    byId("query").value = given.get("query") ?? "";
    byId("query").focus();
    if (byId("query").value) search(given.get("id") ? { id: given.get("id") } : null);
  });
}

start();
