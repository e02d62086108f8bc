"use strict";
// Draws every plot in the colours of the page, again when these change, and sorts tables.
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function coloured(layout) {
  const axis = { gridcolor: colour("--line"), linecolor: colour("--line"),
                 zerolinecolor: colour("--quiet"), automargin: true };
  const axes = {};
  for (const name of ["xaxis", "yaxis"]) axes[name] = { ...layout[name], ...axis };
  const font = { color: colour("--text"), family: getComputedStyle(document.body).fontFamily,
                 size: 12 };
  return { ...layout, ...axes, font, hoverlabel: { font: { ...font, color: undefined } } };
}

function drawPlot(plot, how = Plotly.newPlot) {
  const { data, layout } = JSON.parse(plot.nextElementSibling.textContent);
  for (const trace of data)
    if (trace.meta === "ink") trace.marker.color = colour("--text");  // stands out on any bar
  how(plot, data, coloured(layout), { displayModeBar: false });
}

function draw() {
  for (const plot of document.querySelectorAll("div.plot")) drawPlot(plot);
}

// Redraw for another width: a plot that is only resized leaves its legend where it was.
let waiting, width = innerWidth;
addEventListener("resize", () => {
  if (innerWidth === width) return;
  width = innerWidth;
  clearTimeout(waiting);
  waiting = setTimeout(draw, 100);
});

function value(row, column) {
  const cell = row.cells[column];
  const number = Number(cell.dataset.value ?? cell.textContent.replaceAll(",", ""));
  return Number.isNaN(number) ? cell.textContent : number;
}

function compared(one, other) {
  if (typeof one === "number" && typeof other === "number") return one - other;
  return String(one).localeCompare(String(other), "en", { numeric: true });
}

function sort(table, column) {
  const heads = Array.from(table.tHead.rows[0].cells);
  const upwards = heads[column].getAttribute("aria-sort") !== "ascending";
  heads.forEach((head) => head.removeAttribute("aria-sort"));
  heads[column].setAttribute("aria-sort", upwards ? "ascending" : "descending");
  const rows = Array.from(table.tBodies[0].rows);
  const sign = upwards ? 1 : -1;
  rows.sort((one, other) => sign * compared(value(one, column), value(other, column)));
  table.tBodies[0].append(...rows);
}

function makeSortable(root) {
  for (const table of root.querySelectorAll("table.sortable")) {
    Array.from(table.tHead.rows[0].cells).forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      button.addEventListener("click", () => sort(table, column));
      head.replaceChildren(button);
    });
  }
}

makeSortable(document);

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
matchMedia("print").addEventListener("change", draw);
draw();
