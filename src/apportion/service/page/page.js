// The page of a service: rounds over time, one of them in full, and what if. It asks the service and nobody else.
const COLORS = ["var(--mark)", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#7d6fdc", "#c4568f"];
const DASHES = [null, "7 3", "2 3", "9 3 2 3", "4 2"]; // with the colours: forty lines that can be told apart
const byId = (id) => document.getElementById(id);
const view = { about: null, name: null, rounds: [], at: -1, instance: null, asked: {} };
let token = location.hash.startsWith("#token=") ? location.hash.slice(7) : sessionStorage.getItem("token");
if (token) { sessionStorage.setItem("token", token); history.replaceState(null, "", location.pathname); }

async function ask(path, body, signal) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const answer = await fetch(path, body ? { method: "POST", headers, signal, body: JSON.stringify(body) } : { headers, signal });
  if (answer.status === 401) { byId("ask").hidden = false; throw new Error("show the token"); }
  const said = await answer.json();
  if (!answer.ok) throw new Error(said.error.message);
  return said;
}

function element(name, attributes = {}, ...children) {
  const svg = ["svg", "path", "line", "text", "rect", "circle", "title"].includes(name);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== false && value != null) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

const figure = (x) => (x == null ? "none" : Number(x.toPrecision(6)).toLocaleString("en", { maximumSignificantDigits: 6 }));
const short = (x) => x.toLocaleString("en", { notation: "compact", maximumSignificantDigits: 3 });
const clock = (s) => new Date(s * 1000).toLocaleTimeString("en-GB");
const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
const record = () => ` --record ${quoted(view.about.record)}`;

function command(section, text) {
  const line = document.querySelector(`${section} .command`) ?? byId(section).closest("section").querySelector(".command");
  const copy = element("button", { type: "button", onclick: () => navigator.clipboard?.writeText(text) }, "Copy");
  line.replaceChildren(element("code", {}, text), copy);
}

// one chart for objectives and for prices: lines over rounds, the chosen round marked
function chart(place, lines, label, left_out = 0) {
  const width = Math.max(300, place.clientWidth), height = 190, left = 56, right = width - 12, top = 12, foot = 166;
  const values = lines.flatMap((line) => line.values).filter((value) => value != null);
  const low = Math.min(0, ...values), high = Math.max(...values, low + 1e-9), count = view.rounds.length;
  const x = (k) => (count < 2 ? (left + right) / 2 : left + ((right - left) * k) / (count - 1));
  const y = (value) => foot - ((foot - top) * (value - low)) / (high - low);
  const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  for (const value of [low, (low + high) / 2, high]) {
    svg.append(element("line", { class: "axis", x1: left, x2: right, y1: y(value), y2: y(value) }));
    svg.append(element("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, short(value)));
  }
  for (const line of lines) {
    let path = "", pen = "M";
    line.values.forEach((value, k) => { if (value == null) pen = "M"; else { path += `${pen}${x(k).toFixed(1)} ${y(value).toFixed(1)}`; pen = "L"; } });
    svg.append(element("path", line.color ? { d: path, fill: "none", stroke: line.color, "stroke-width": 2, "stroke-dasharray": line.dash } : { d: path, class: "bound" }));
    if (line.color) line.values.forEach((value, k) => {
      if (value == null || (count > 120 && k !== view.at)) return;
      svg.append(element("circle", { cx: x(k), cy: y(value), r: k === view.at ? 5 : 2.5, fill: line.color }, element("title", {}, `${line.name} ${figure(value)}, ${clock(view.rounds[k].decision.at_s)}`)));
    });
  }
  svg.append(element("line", { class: "now", x1: x(view.at), x2: x(view.at), y1: top, y2: foot }));
  const first = view.rounds[0], last = view.rounds[count - 1];
  svg.append(element("text", { x: left, y: height - 6 }, clock(first.decision.at_s)));
  if (count > 1) svg.append(element("text", { x: right, y: height - 6, "text-anchor": "end" }, clock(last.decision.at_s)));
  svg.addEventListener("click", (event) => {
    const box = svg.getBoundingClientRect(), at = ((event.clientX - box.left) / box.width) * width;
    choose(Math.round(((at - left) / (right - left)) * (count - 1)));
  });
  const key = element("ul", { class: "key" });
  for (const line of lines) { const item = element("li", {}, element("span", {}, line.name)); item.style.color = line.color ?? "var(--faint)"; if (line.dash) item.className = "dashed"; key.append(item); }
  if (left_out > 0) key.append(element("li", { class: "more" }, `and ${left_out} more, not drawn`));
  place.replaceChildren(svg, key);
}

function drawRounds() {
  const rounds = view.rounds, chosen = rounds[view.at].decision;
  byId("round-title").textContent = `Decision ${chosen.id}, ${clock(chosen.at_s)}: ${rounds[view.at].termination}` + (chosen.status === "decided" ? "" : ` (${chosen.status})`);
  byId("round").max = rounds.length - 1;
  byId("round").value = view.at;
  byId("round").setAttribute("aria-valuetext", `decision ${chosen.id} at ${clock(chosen.at_s)}`);
  chart(byId("objective"), [{ name: "objective", color: COLORS[0], values: rounds.map((r) => r.objective) }, { name: "bound", values: rounds.map((r) => r.bound) }], "Objective and bound, round by round");
  command("objective", `apportion history list --session ${quoted(view.name)} --last ${rounds.length}${record()}`);
  const names = [...new Set(rounds.flatMap((r) => Object.keys(r.prices ?? {})))];
  chart(byId("prices"), names.slice(0, 40).map((name, k) => ({ name, color: COLORS[k % 8], dash: DASHES[Math.floor(k / 8)], values: rounds.map((r) => r.prices?.[name] ?? null) })), "Price of one more unit of every capacity, round by round", names.length - 40);
  command("prices", `apportion history explain ${chosen.id}${record()}`);
}

const options = (job) => view.instance.kind === "gap_filling"
  ? [0, ...Array.from({ length: Math.max(0, Math.min(job.max_nodes, 200) - job.min_nodes + 1) }, (_, k) => job.min_nodes + k)].map(String)
  : (job.options ?? []).map((option) => option.id);

function forbidding(job, share) { // the fields that forbid a job what it has
  if (view.instance.kind === "gap_filling") return { forbidden_counts: [...(job.forbidden_counts ?? []), Number(share)].sort((a, b) => a - b) };
  return { forbidden: [...(job.forbidden ?? []), share] };
}

function history_of(id) { // what a job had in the rounds up to the chosen one, as bars
  const from = Math.max(0, view.at - 31), shares = view.rounds.slice(from, view.at + 1).map((r) => r.shares[id]);
  const amounts = shares.map((share) => (share == null ? 0 : Number.parseFloat(share) || 1)), most = Math.max(1, ...amounts);
  const svg = element("svg", { viewBox: "0 0 160 20", role: "img", "aria-label": `the last ${shares.length} rounds: ${shares.map((s) => s ?? "-").join(" ")}` });
  amounts.forEach((amount, k) => svg.append(element("rect", { class: "bars", x: 5 * k, width: 4, y: 20 - (19 * amount) / most, height: (19 * amount) / most }, element("title", {}, shares[k] ?? "nothing"))));
  return svg;
}

const cell = (title, ...parts) => element("td", { "data-title": title }, ...parts);

function drawPlan() {
  const { shares, decision } = view.rounds[view.at];
  const rows = view.instance.jobs.map((job) => {
    const share = shares[job.id], asked = view.asked;
    const set = (group, value) => { (asked[group] ??= {})[job.id] = value; if (value == null) delete asked[group][job.id]; wonder(); };
    const weight = job.weight ?? (view.instance.kind === "gap_filling" ? 1 : null), said = element("output", {}, figure(weight));
    const most = Math.max(4, 4 * weight);
    const slider = weight == null ? "" : element("input", { type: "range", min: 0, max: most, step: most / 80, value: weight, "aria-label": `weight of ${job.id}`, oninput: (event) => { said.textContent = figure(Number(event.target.value)); set("weight", Number(event.target.value)); } });
    const pin = element("select", { "aria-label": `pin ${job.id}`, onchange: (event) => set("pin", event.target.value || null) }, element("option", { value: "" }, "free"), ...options(job).map((option) => element("option", {}, option)));
    const forbid = element("input", { type: "checkbox", disabled: share == null || !options(job).length, "aria-label": `forbid ${job.id} what it has`, onchange: (event) => set("forbid", event.target.checked ? forbidding(job, share) : null) });
    return element("tr", {}, element("th", { scope: "row" }, job.id), cell("Has", share ?? "waits"), cell("Rounds before", history_of(job.id)), cell("Weight", slider, weight == null ? "" : said), cell("Pin", options(job).length ? pin : ""), cell("Forbid", forbid));
  });
  document.querySelector("#plan tbody").replaceChildren(...rows);
  command("plan", `apportion history show ${decision.id}${record()}`);
  const waiting = view.instance.jobs.filter((job) => shares[job.id] == null);
  byId("queue").replaceChildren(element("p", {}, waiting.length ? `${waiting.length} of ${view.instance.jobs.length} jobs wait. Why?` : "No job waits."), ...waiting.slice(0, 100).map((job) => why(job.id, decision.id)));
  command("queue", `apportion history explain ${decision.id}${waiting.length ? ` --job ${quoted(waiting[0].id)}` : ""}${record()}`);
}

function why(job, number) {
  const text = element("pre", {}, "asking ...");
  const open = async (event) => {
    if (!event.target.open || text.dataset.asked) return;
    text.dataset.asked = "yes";
    try {
      const said = await ask(`decisions/${number}/explanation?job=${encodeURIComponent(job)}`);
      const lines = said.text.split("\n"), at = lines.findIndex((line) => line.startsWith(job));
      text.textContent = lines.slice(Math.max(0, at)).join("\n").trim();
    } catch (error) { text.textContent = error.message; }
    command("queue", `apportion history explain ${number} --job ${quoted(job)}${record()}`);
  };
  return element("details", { ontoggle: open }, element("summary", {}, job), text);
}

function drawCapacities() {
  const present = view.about.capacities;
  byId("capacities").replaceChildren(...(Object.keys(present).length > 30 ? [element("p", { class: "hint" }, `The first 30 of ${Object.keys(present).length} capacities:`)] : []), ...Object.entries(present).slice(0, 30).map(([name, amount]) => {
    const said = element("output", {}, String(amount));
    const set = (event) => { const value = Number(event.target.value); said.textContent = value === amount ? String(amount) : `${amount} → ${value}`; (view.asked.capacity ??= {})[name] = value; if (value === amount) delete view.asked.capacity[name]; wonder(); };
    return element("label", { class: "capacity" }, element("span", {}, name), element("input", { type: "range", min: 0, max: Math.max(8, 2 * amount), step: 1, value: amount, oninput: set }), said);
  }));
}

function deltas() {
  const { capacity = {}, weight = {}, pin = {}, forbid = {} } = view.asked;
  return [
    ...Object.entries(capacity).map(([name, amount]) => ({ op: "set_capacity", name, amount })),
    ...Object.entries(weight).map(([id, value]) => ({ op: "update_job", job: { id, weight: value } })),
    ...Object.entries(forbid).map(([id, fields]) => ({ op: "update_job", job: { id, ...fields } })),
    ...Object.entries(pin).map(([id, option]) => ({ op: "pin", id, option: view.instance.kind === "gap_filling" ? Number(option) : option })),
  ];
}

let timer = null, underway = null;
function wonder() { clearTimeout(timer); timer = setTimeout(compare, 200); }

async function compare() {
  underway?.abort();
  underway = new AbortController();
  const asked = deltas(), number = view.rounds[view.at].decision.id, change = byId("change");
  const words = asked.map((delta) => ` --delta ${quoted(JSON.stringify(delta))}`).join("");
  if (!asked.length) { change.textContent = ""; byId("moves").replaceChildren(); command("#what-if", `apportion history export ${number} --part instance${record()} | apportion what-if -`); return; }
  byId("follow").checked = false; // whoever tries something out stays where he is
  command("#what-if", `apportion history export ${number} --part instance${record()} | apportion what-if -${words}`);
  try {
    const said = await ask(`decisions/${number}/what-if`, { deltas: asked, time_limit: 10 }, underway.signal);
    change.className = "";
    const more = said.change == null ? "" : ` (${said.change >= 0 ? "+" : ""}${figure(said.change)}${said.proven ? "" : ", not proven"})`;
    change.textContent = `${said.measure}: ${figure(said.objective_before)} → ${figure(said.objective_after)}${more}`;
    const cell = (text) => element("td", {}, text);
    const rows = said.jobs.map((job) => element("tr", {}, element("th", { scope: "row" }, job.job), cell(`${job.before ?? "nothing"} → ${job.after ?? "nothing"}`), cell(`${job.gain >= 0 ? "+" : ""}${figure(job.gain)}`)));
    for (const [name, price] of Object.entries(said.prices_after ?? {})) rows.push(element("tr", {}, element("th", { scope: "row" }, `price of ${name}`), cell(`${figure(said.prices_before?.[name])} → ${figure(price)}`), cell("")));
    const notes = said.notes.map((note) => element("p", { class: "hint" }, note));
    byId("moves").replaceChildren(element("div", { class: "scroll" }, element("table", {}, element("tbody", {}, ...rows))), ...notes);
  } catch (error) {
    if (error.name === "AbortError") return;
    change.className = "bad";
    change.textContent = error.message;
    byId("moves").replaceChildren();
  }
}

async function choose(at) {
  view.at = Math.max(0, Math.min(view.rounds.length - 1, at));
  view.asked = {};
  const number = view.rounds[view.at].decision.id;
  const [instance, about] = await Promise.all([ask(`decisions/${number}/instance`), ask(`decisions/${number}/about`)]);
  if (number !== view.rounds[view.at]?.decision.id) return; // another round was chosen meanwhile
  Object.assign(view, { instance, about });
  drawRounds();
  drawPlan();
  drawCapacities();
  await compare();
  document.body.dataset.ready = String(number);
}

async function refresh() {
  try {
    const open = await ask("sessions");
    const select = byId("session"), names = open.map((session) => session.name);
    if (select.dataset.names !== names.join("\n")) {
      select.replaceChildren(...names.map((name) => element("option", {}, name)));
      select.dataset.names = names.join("\n");
      if (names.includes(view.name)) select.value = view.name;
    }
    const before = view.name, last = view.rounds.at(-1)?.decision.id;
    view.name = select.value || null;
    const current = open.find((session) => session.name === view.name);
    byId("state").textContent = current ? `${current.kind}, ${current.jobs} jobs, revision ${current.revision}` : "no session is open";
    if (!current || (view.name === before && current.decision === last)) return;
    if (current.decision == null) { byId("state").textContent += ", nothing decided yet"; return; }
    view.rounds = await ask(`sessions/${encodeURIComponent(view.name)}/rounds?last=200`);
    document.querySelector("main").hidden = false;
    byId("ask").hidden = true;
    if (byId("follow").checked || view.name !== before) await choose(view.rounds.length - 1);
  } catch (error) { byId("state").textContent = error.message; }
}

byId("round").addEventListener("input", (event) => { byId("follow").checked = false; choose(Number(event.target.value)); });
byId("reset").addEventListener("click", () => choose(view.at));
byId("session").addEventListener("change", () => { byId("follow").checked = true; refresh(); });
byId("ask").addEventListener("submit", (event) => { event.preventDefault(); token = byId("token").value; sessionStorage.setItem("token", token); byId("ask").hidden = true; refresh(); });
let width = innerWidth;
addEventListener("resize", () => { if (view.rounds.length && innerWidth !== width) { width = innerWidth; drawRounds(); } });
await refresh();
setInterval(() => { if (byId("follow").checked && !document.hidden) refresh(); }, 2000);
