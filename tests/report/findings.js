// What the tests ask of a page. Each function returns a list of complaints, best empty.
const plots = () => Array.from(document.querySelectorAll("div.plot"));
const titleOf = (plot) => plot.closest("figure").querySelector("h3").textContent.slice(0, 60);
const box = (element) => element.getBoundingClientRect();

function seen(element) {
  const { width, height } = box(element);
  return width > 0 || height > 0;
}

function shows(trace) {
  const values = trace.orientation === "h" ? trace.x : trace.y;
  return trace.visible !== "legendonly" && values.some((value) => value !== null && value !== 0);
}

function undrawn() {
  const found = [];
  for (const plot of plots()) {
    const frame = plot.querySelector("svg.main-svg");
    if (!frame || box(frame).width < 200 || box(frame).height < 200) {
      found.push(`${titleOf(plot)}: no drawing`);
      continue;
    }
    const expected = plot.data.filter(shows).length;
    const drawn = Array.from(plot.querySelectorAll(".mlayer > .trace")).filter(seen).length;
    if (drawn < expected || plot.data.length === 0)
      found.push(`${titleOf(plot)}: ${drawn} of ${expected} traces`);
    found.push(...unknown(plot).map((wrong) => `${titleOf(plot)}: ${wrong}`));
  }
  return found;
}

// Settings that plotly does not know; without a legend it stumbles over the legend's settings.
function unknown(plot) {
  const { data, layout } = JSON.parse(plot.nextElementSibling.textContent);
  const complaints = Plotly.validate(data, { ...layout, showlegend: true }) ?? [];
  return complaints.filter((wrong) => wrong.code !== "unused").map((wrong) => wrong.msg);
}

const WORDS = ".legendtext, .xtitle, .ytitle, .xtick text, .ytick text, .bartext";

// Texts of a plot that cover each other or its drawing, or reach out of it.
function unreadable() {
  const found = [];
  for (const plot of plots()) {
    const legend = plot.querySelector(".legend"), drawing = plot.querySelector(".nsewdrag");
    if (legend && box(legend).bottom > box(drawing).top + 1)
      found.push(`${titleOf(plot)}: the legend covers the drawing`);
    if (box(drawing).height < 120) found.push(`${titleOf(plot)}: the drawing is too low`);
    const outside = box(plot);
    const words = Array.from(plot.querySelectorAll(WORDS)).filter(seen);
    words.forEach((word, place) => {
      const one = box(word), name = `${titleOf(plot)}: ${word.textContent}`;
      if (one.left < outside.left - 1 || one.right > outside.right + 1 ||
          one.top < outside.top - 1 || one.bottom > outside.bottom + 1)
        found.push(`${name} is cut`);
      for (const second of words.slice(place + 1)) {
        const other = box(second);
        const across = Math.min(one.right, other.right) - Math.max(one.left, other.left);
        const down = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
        const tilted = (word.getAttribute("transform") ?? "").match(/rotate\(-?[1-8]/);
        if (across > 1 && down > 3 && !tilted) found.push(`${name} covers ${second.textContent}`);
      }
    });
  }
  return found;
}

function texts() {
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const hidden = element.closest("script, style") || !element.checkVisibility();
    if (walker.currentNode.textContent.trim() && !hidden) found.push(element);
  }
  return found;
}

function small(least) {
  return texts()
    .filter((element) => parseFloat(getComputedStyle(element).fontSize) < least)
    .map((element) => `${getComputedStyle(element).fontSize}: ${element.textContent}`);
}

function light(colour) {
  const parts = colour.match(/[\d.]+/g).slice(0, 3).map((part) => {
    const share = part / 255;
    return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
}

function behind(element) {
  for (let one = element; one; one = one.parentElement) {
    const colour = getComputedStyle(one).backgroundColor;
    if (colour !== "rgba(0, 0, 0, 0)" && !one.closest("svg")) return colour;
  }
  return "rgb(255, 255, 255)";
}

function faint(least) {
  const found = [];
  for (const element of texts()) {
    if (element.closest(".bartext")) continue;
    const style = getComputedStyle(element);
    const ink = light(element.closest("svg") ? style.fill : style.color);
    const paper = light(behind(element));
    const contrast = (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
    if (contrast < least) found.push(`${contrast.toFixed(1)}: ${element.textContent}`);
  }
  return found;
}

function wide() {
  const page = document.documentElement;
  return page.scrollWidth > page.clientWidth ? [`${page.scrollWidth} > ${page.clientWidth}`] : [];
}

function lightness() {
  return light(behind(document.body));
}

function titles() {
  return plots().map(titleOf);
}
