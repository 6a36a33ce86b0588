// Keeps a page as it is on the server: puts in the parts that have changed.
// It computes nothing; every number is made by the server.
const shown = {};

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

function show(state) {
  for (const [name, html] of Object.entries(state.parts)) {
    if (shown[name] === html) continue;
    shown[name] = html;
    replace(document.querySelector(`[data-part="${name}"]`), html);
  }
  offerComparison();
}

// Each second while something may happen, and not at all while the page is hidden.
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
    if (state) show(state);
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
