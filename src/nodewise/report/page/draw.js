// Draws a chart into its place. On less room it is drawn this wide and shown smaller, so that its
// words keep apart.
const LEAST = 448;
const PANELS = 528; // the width for which nodewise.report.charts.look makes panels of a page

async function drawChart(element, chart, options = {}) {
  const room = Math.max(element.clientWidth, LEAST);
  for (const panel of chart.vconcat ?? []) panel.width += Math.min(room - PANELS, 0);
  const patch = (spec) =>
    JSON.parse(JSON.stringify(spec).replaceAll("containerSize()[0]", `max(containerSize()[0], ${LEAST})`));
  const made = await vegaEmbed(element, chart, { actions: false, renderer: "svg", logLevel: 1, patch, ...options });
  // The element around it says in words what the chart shows; its parts have no names of their own.
  element.querySelector("svg").setAttribute("aria-hidden", "true");
  return made;
}

