// Draws the charts, and lets the reader try other prices. The numbers of the page itself are
// computed before; only `decide` below repeats a part of it, and is tested against it.
const read = (id) => JSON.parse(document.getElementById(id)?.textContent ?? "null");
const charts = read("nodewise-charts");
const live = read("nodewise-live");
const views = {};

for (const element of document.querySelectorAll("[data-chart]")) {
  const name = element.dataset.chart;
  views[name] = (await drawChart(element, charts[name])).view;
}
document.documentElement.dataset.charts = "drawn";
// On paper nothing can be unfolded.
addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("#provenance details, #reproduce details")) part.open = true;
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
  const ladder = live.nodes.map((_, at) => at).filter((at) => !live.refused[at] && !late(at) && !dear(at));
  if (!ladder.length) return { bills, ladder };
  const margin = (margins, from, to) => (margins === null ? 0 : margins[from][to]);
  const faster = (one, other) => (live.speedup[other] > live.speedup[one] ? other : one);
  const cheapestBy = (cost) => {
    const least = Math.min(...ladder.map((at) => cost[at])) * (1 + tie);
    return ladder.filter((at) => cost[at] <= least).reduce(faster);
  };
  // The fewest nodes that cannot be told from the fastest.
  const fastestOf = (some) => {
    const best = some.reduce(faster);
    if (live.margins === null) {
      const most = live.speedup[best] * (1 - tie);
      return some.filter((at) => live.speedup[at] >= most).reduce((one, other) => (paid[other] < paid[one] ? other : one));
    }
    return some.find((at) => Math.log(live.speedup[best] / live.speedup[at]) <= margin(live.margins, at, best));
  };
  const cheapest = cheapestBy(paid);
  const fastest = fastestOf(ladder);
  // Cost efficiency is taken over a base that fits the curve.
  const reference = [...paid];
  if (live.fitted_base_seconds !== null)
    reference[0] *= (live.fitted_base_seconds + live.startup_seconds) / (live.seconds[0] + live.startup_seconds);
  const limit = Math.min(...ladder.map((at) => reference[at])) * (1 + tie);
  const balanced = fastestOf(ladder.filter((at) => Math.min(asked.threshold, 1) * reference[at] <= limit));
  const first = ladder[0];
  const lower = ladder
    .slice(1)
    .some((at) => reference[at] * Math.exp(margin(live.joint_margins, first, at)) < reference[first] * (1 - tie));
  let chosen = lower ? cheapest : balanced;
  if (live.value_per_hour !== null) chosen = cheapestBy(total);
  else if (asked.deadline > 0) chosen = cheapest;
  else if (live.budget !== null) chosen = fastest;
  const isClearlyFastest = live.speedup[fastest] >= live.speedup[ladder.reduce(faster)] * (1 - tie);
  return { bills, ladder, cheapest, fastest, chosen, isClearlyFastest };
}

function money(amount) {
  const text = amount < 0.0995 ? amount.toPrecision(3) : amount.toFixed(amount < 1000 ? 3 : 2);
  return live.currency.length === 1 ? `${live.currency}${text}` : `${text} ${live.currency}`;
}

function show(asked) {
  const found = decide(asked);
  // Where inputs are ranges the page has weighed them; the sliders take their centres.
  if (asked === live.asked && found.ladder.length && live.chosen !== null) found.chosen = live.nodes.indexOf(live.chosen);
  const status = document.getElementById("live-verdict");
  const fastestWords = found.isClearlyFastest ? "fastest" : "fastest within noise";
  const rows = live.nodes.map((nodes, at) => ({
    K: nodes,
    cost: found.bills[at].paid / live.relative_work[at],
    allowed: found.ladder.includes(at),
  }));
  const at = { cheapest: found.cheapest, fastest: found.fastest, chosen: found.chosen };
  for (const [name, position] of Object.entries(at))
    status.dataset[name] = position === undefined ? "" : live.nodes[position];
  if (found.cheapest === undefined) {
    status.textContent = "No scale passes every gate: give more time or a larger budget.";
  } else {
    const name = (position) => `K=${live.nodes[position]} (${money(rows[position].cost)})`;
    const gap = rows[found.fastest].cost - rows[found.cheapest].cost;
    const both =
      found.cheapest === found.fastest
        ? `Cheapest and ${fastestWords}: ${name(found.cheapest)}.`
        : `Cheapest ${name(found.cheapest)}, ${fastestWords} ${name(found.fastest)}: ${money(gap)} between them${live.weak ? ", for the work of the first run" : ""}.`;
    status.textContent = `${both} Recommended: K=${live.nodes[found.chosen]}.`;
  }
  redraw(rows, at, fastestWords);
}

function redraw(rows, at, fastestWords) {
  const view = views["what-if"];
  if (!view) return;
  view.data("scales", rows);
  const names = { cheapest: "cheapest", fastest: fastestWords, chosen: "recommended" };
  const line = rows.filter((row) => row.allowed);
  const most = Math.max(...line.map((row) => row.cost));
  const marks = [];
  for (const position of new Set(Object.values(at))) {
    if (position === undefined) continue;
    const { K, cost } = rows[position];
    const label = Object.keys(names).filter((name) => at[name] === position).map((name) => names[name]).join(", ");
    const room = view.width() > 400; // the sentence above says the rest
    // Words lean towards the middle, so that the edge cuts none, and keep off the line: where it rises
    // they stand below it, unless that is on the axis, where it is flat.
    const align = K * K < rows[0].K * rows.at(-1).K ? "left" : "right";
    const beside = line[line.indexOf(rows[position]) + (align === "left" ? 1 : -1)];
    const side = beside?.cost > cost && cost > 0.12 * most ? "below" : "above";
    marks.push({ align, side, label: room ? `K=${K} ${label}` : `K=${K}`, K, cost });
  }
  view.data("marks", marks);
  view.runAsync();
}

const form = document.getElementById("live");
if (form && live) {
  const names = ["price", "fixed", "deadline", "threshold"];
  const field = (name) => document.getElementById(`live-${name}-number`);
  const slider = (name) => document.getElementById(`live-${name}`);
  const start = () => {
    for (const name of names) slider(name).value = field(name).value = live.asked[name] ?? "";
    show(live.asked);
  };
  const asked = () =>
    Object.fromEntries(names.map((name) => [name, field(name).value === "" ? live.asked[name] : Number(field(name).value)]));
  for (const name of names) {
    slider(name).addEventListener("input", () => { field(name).value = slider(name).value; show(asked()); });
    field(name).addEventListener("input", () => { slider(name).value = field(name).value; show(asked()); });
  }
  form.addEventListener("reset", (event) => { event.preventDefault(); start(); });
  form.addEventListener("submit", (event) => event.preventDefault());
  start();
}
