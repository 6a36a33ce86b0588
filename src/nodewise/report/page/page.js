// Adds to the drawn page what needs a script: values under the pointer, linear axes, and prices of
// the reader's own. Only `decide` repeats a computation of nodewise, and is tested against it.
const read = (id) => JSON.parse(document.getElementById(id)?.textContent ?? "null");
const { charts, looks } = read("nodewise-charts");
const live = read("nodewise-live");
let embedder = null; // a promise for what draws charts; nothing needs it before the first is drawn
const views = {}; // a promise for each chart that has been drawn again
let linear = false;

// Vega, unpacked from where the page keeps it.
async function unpacked() {
  const packed = atob(document.getElementById("nodewise-vega").textContent);
  const bytes = Uint8Array.from(packed, (one) => one.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  new Function(`"use strict"; ${await new Response(stream).text()}`)();
  return window.vegaEmbed;
}

// The chart in its place, drawn by Vega; it looks as it did before.
function drawn(name) {
  views[name] ??= redrawn(name);
  return views[name];
}

async function redrawn(name) {
  const element = document.querySelector(`[data-chart="${name}"]`);
  element.style.minHeight = `${element.offsetHeight}px`;
  const spec = { ...(linear ? withLinearAxes(charts[name]) : charts[name]), config: looks[0] };
  const embed = await (embedder ??= unpacked());
  const { view } = await embed(element, spec, { actions: false, renderer: "svg", logLevel: 1 });
  element.querySelector("svg").setAttribute("aria-hidden", "true"); // described by the element
  element.style.minHeight = "";
  return view;
}

function withLinearAxes(spec) {
  const straight = (key, value) => (value?.type === "log" ? { ...value, type: "linear", base: undefined } : value);
  return JSON.parse(JSON.stringify(spec, straight));
}

for (const element of document.querySelectorAll("[data-chart]"))
  element.addEventListener("pointerenter", () => drawn(element.dataset.chart), { once: true });

document.getElementById("axes").addEventListener("change", async (event) => {
  linear = event.target.checked;
  for (const [name, view] of Object.entries(views)) (await view).finalize(), delete views[name];
  for (const name of Object.keys(charts))
    if (JSON.stringify(charts[name]).includes('"type":"log"')) await drawn(name);
  if (form) show(asked());
});

// What print styles cannot unfold in older browsers.
addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("details.section")) part.open = true;
});

// The bill of one scale, as nodewise.decide.prices.bill has it.
function bill(asked, at) {
  const rate = asked.price === null ? live.rate_per_hour[at] : asked.price * live.billed_units[at];
  const launched = live.seconds[at] + live.startup_seconds;
  let billed = launched;
  if (live.billing_unit_seconds > 1e-6)
    billed = Math.ceil(launched / live.billing_unit_seconds - 1e-9) * live.billing_unit_seconds;
  billed = Math.max(billed, live.billing_minimum_seconds);
  const paid = ((rate + asked.fixed + live.storage_per_hour) * billed) / 3600 + live.egress;
  return { paid, total: paid + ((live.value_per_hour ?? 0) * launched) / 3600 };
}

// The cheapest, the fastest and the recommended scale, as nodewise.decide.objective has them.
function decide(asked) {
  const tie = 1e-9;
  const bills = live.nodes.map((_, at) => bill(asked, at));
  const paid = bills.map((one, at) => one.paid / live.relative_work[at]);
  const total = bills.map((one, at) => one.total / live.relative_work[at]);
  const late = (at) => asked.deadline > 0 && live.sure_seconds[at] + live.longest_startup_seconds > asked.deadline * (1 + 1e-12);
  const dear = (at) => live.budget !== null && bills[at].paid > live.budget * (1 + tie);
  const eligible = live.nodes.map((_, at) => at).filter((at) => !live.refused[at] && !late(at) && !dear(at));
  if (!eligible.length) return { bills, eligible };
  const margin = (margins, from, to) => (margins === null ? 0 : margins[from][to]);
  const faster = (one, other) => (live.speedup[other] > live.speedup[one] ? other : one);
  const cheapestBy = (cost) => {
    const least = Math.min(...eligible.map((at) => cost[at])) * (1 + tie);
    return eligible.filter((at) => cost[at] <= least).reduce(faster);
  };
  // The fewest nodes that cannot be distinguished from the fastest, unless they cost more.
  const fastestOf = (some) => {
    const best = some.reduce(faster);
    if (live.margins === null) {
      const most = live.speedup[best] * (1 - tie);
      return some.filter((at) => live.speedup[at] >= most).reduce((one, other) => (paid[other] < paid[one] ? other : one));
    }
    const alike = (at) => Math.log(live.speedup[best] / live.speedup[at]) <= margin(live.margins, at, best);
    return some.find((at) => alike(at) && paid[at] <= paid[best] * (1 + tie));
  };
  const cheapest = cheapestBy(paid);
  const fastest = fastestOf(eligible);
  // Cost efficiency is taken over a base that fits the curve.
  const reference = [...paid];
  if (live.fitted_base_seconds !== null)
    reference[0] *= (live.fitted_base_seconds + live.startup_seconds) / (live.seconds[0] + live.startup_seconds);
  const limit = Math.min(...eligible.map((at) => reference[at])) * (1 + tie);
  const balanced = fastestOf(eligible.filter((at) => Math.min(asked.threshold, 1) * reference[at] <= limit));
  const first = eligible[0];
  const lower = eligible
    .slice(1)
    .some((at) => reference[at] * Math.exp(margin(live.joint_margins, first, at)) < reference[first] * (1 - tie));
  let chosen = lower ? cheapest : balanced;
  if (live.value_per_hour !== null) chosen = cheapestBy(total);
  else if (asked.deadline > 0) chosen = cheapest;
  else if (live.budget !== null) chosen = fastest;
  const isClearlyFastest = live.speedup[fastest] >= live.speedup[eligible.reduce(faster)] * (1 - tie);
  return { bills, eligible, cheapest, balanced, fastest, chosen, isClearlyFastest };
}

function money(amount) {
  const text = amount < 0.0995 ? amount.toPrecision(3) : amount.toFixed(amount < 1000 ? 3 : 2);
  return live.currency.length === 1 ? `${live.currency}${text}` : `${text} ${live.currency}`;
}

function show(asked) {
  const found = decide(asked);
  const isStart = asked === live.asked;
  // Where inputs are ranges the page has weighed them; the sliders take their centres.
  if (isStart && found.eligible.length && live.chosen !== null) found.chosen = live.nodes.indexOf(live.chosen);
  const status = document.getElementById("live-verdict");
  const fastestWords = found.isClearlyFastest ? "fastest" : "fastest within noise";
  const costs = live.nodes.map((_, at) => found.bills[at].paid / live.relative_work[at]);
  for (const name of ["cheapest", "fastest", "chosen"])
    status.dataset[name] = found[name] === undefined ? "" : live.nodes[found[name]];
  if (found.cheapest === undefined) {
    status.textContent = "No scale passes every gate: give more time or a larger budget.";
  } else {
    const name = (at) => `K=${live.nodes[at]} (${money(costs[at])})`;
    const gap = costs[found.fastest] - costs[found.cheapest];
    const both =
      found.cheapest === found.fastest
        ? `Cheapest and ${fastestWords}: ${name(found.cheapest)}.`
        : `Cheapest ${name(found.cheapest)}, ${fastestWords} ${name(found.fastest)}: ${money(gap)} between them${live.weak ? ", for the work of the first run" : ""}.`;
    status.textContent = `${both} Recommended: K=${live.nodes[found.chosen]}.`;
  }
  if (!isStart || views.cost) redraw(found, costs, isStart, fastestWords);
}

// The chart of cost and time at the prices asked for.
async function redraw(found, costs, isStart, fastestWords) {
  const view = await drawn("cost");
  const { datasets, usermeta } = charts.cost;
  if (isStart) {
    for (const name of ["scales", "marks", "recommended"]) if (datasets[name]) view.data(name, datasets[name]);
  } else {
    const rows = datasets.scales.map((row, at) => ({
      ...row,
      shown: costs[at] * usermeta.factor,
      price: money(costs[at]),
      low: null,
      high: null,
      excluded: found.eligible.includes(at) ? "" : "excluded",
    }));
    const roles = new Map();
    for (const [name, words] of [["cheapest", "cheapest (K*)"], ["balanced", "balanced"], ["fastest", fastestWords]])
      if (found[name] !== undefined) roles.set(found[name], [...(roles.get(found[name]) ?? []), words]);
    const label = ({ K, price, took }, names) => `${names.join(", ")}: K=${K}, ${price}, ${took}`;
    view.data("scales", rows);
    const marks = [...roles].map(([at, names]) => ({ ...rows[at], role: label(rows[at], names) }));
    view.data("marks", marks.length ? marks : [{ ...rows[0], role: "no scale passes every gate", none: true }]);
    if (datasets.recommended) view.data("recommended", found.chosen === undefined ? [] : [{ K: live.nodes[found.chosen] }]);
  }
  if (datasets.recommended) view.signal("recommended", isStart ? live.chosen : live.nodes[found.chosen] ?? 0);
  await view.runAsync();
}

const form = document.getElementById("live");
const names = ["price", "fixed", "deadline", "threshold"];
const field = (name) => document.getElementById(`live-${name}-number`);
const slider = (name) => document.getElementById(`live-${name}`);
let asked = () => live.asked;

if (form && live) {
  const start = () => {
    for (const name of names) slider(name).value = field(name).value = live.asked[name] ?? "";
    asked = () => live.asked;
    show(live.asked);
  };
  const typed = () =>
    Object.fromEntries(names.map((name) => [name, field(name).value === "" ? live.asked[name] : Number(field(name).value)]));
  const move = () => {
    asked = typed;
    show(asked());
  };
  for (const name of names) {
    slider(name).addEventListener("input", () => { field(name).value = slider(name).value; move(); });
    field(name).addEventListener("input", () => { slider(name).value = field(name).value; move(); });
  }
  form.addEventListener("reset", (event) => { event.preventDefault(); start(); });
  form.addEventListener("submit", (event) => event.preventDefault());
  start();
}
document.documentElement.dataset.charts = "drawn";
