// Keeps a page as it is on the server: puts in the parts that have changed and draws the charts.
// It computes nothing; every number is made by the server.
const shown = {};
const views = {};

// What the reader did to a part outlives its replacement.
function replace(element, html) {
  const ticked = [...element.querySelectorAll("input:checked")].map((input) => input.id);
  const focused = element.contains(document.activeElement) ? document.activeElement.id : "";
  const scrolled = element.querySelector(".scroll")?.scrollLeft ?? 0;
  element.innerHTML = html;
  for (const id of ticked) document.getElementById(id)?.click();
  if (focused) document.getElementById(focused)?.focus();
  if (scrolled) element.querySelector(".scroll")?.scrollTo({ left: scrolled });
}

async function draw(figure) {
  const place = document.getElementById(`figure-${figure.name}`);
  const chart = place.querySelector(".chart");
  place.hidden = false;
  place.querySelector("h2").textContent = figure.title;
  place.querySelector("p").textContent = figure.caption;
  chart.setAttribute("aria-label", figure.description);
  // the page below does not jump while the chart is drawn anew
  chart.style.minHeight = `${chart.offsetHeight}px`;
  views[figure.name]?.finalize();
  views[figure.name] = await drawChart(chart, figure.chart, { ast: true });
  chart.style.minHeight = "";
}

async function show(state) {
  for (const [name, html] of Object.entries(state.parts)) {
    if (shown[name] === html) continue;
    shown[name] = html;
    replace(document.querySelector(`[data-part="${name}"]`), html);
  }
  for (const figure of state.figures ?? []) {
    const drawing = JSON.stringify(figure);
    if (shown[`figure ${figure.name}`] === drawing) continue;
    shown[`figure ${figure.name}`] = drawing;
    await draw(figure);
  }
  offerComparison();
}

// Each second while something may happen, and not at all while nobody looks.
async function follow() {
  let pause = 1000;
  if (!document.hidden) {
    let state = null;
    try {
      const response = await fetch("state.json");
      if (response.ok) state = await response.json();
    } catch {
      // the server has ended: said below
    }
    document.getElementById("connection").hidden = state !== null;
    if (state) await show(state);
    if (!state?.busy) pause = 5000;
  }
  setTimeout(follow, pause);
}

function offerComparison() {
  const button = document.getElementById("compare");
  if (button) button.disabled = document.querySelectorAll("#board input:checked").length !== 2;
}

document.getElementById("board")?.addEventListener("change", offerComparison);
follow();
