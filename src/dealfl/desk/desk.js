"use strict";
// Keeps a page up to date by a stream of events; searches, ages, files that are dropped.
document.documentElement.classList.add("scripted");
const main = document.getElementById("main");
const shown = new Map();  // HTML of sections, by id

function setPlots(section, fresh) {
  const before = section.querySelectorAll("div.plot"), after = fresh.querySelectorAll("div.plot");
  if (!before.length || before.length !== after.length) return false;
  before.forEach((plot, place) => {
    const data = plot.nextElementSibling, news = after[place].nextElementSibling;
    const words = plot.closest("figure")?.querySelector("figcaption");
    const caption = after[place].closest("figure")?.querySelector("figcaption");
    if (words && caption) words.textContent = caption.textContent;
    if (data.textContent === news.textContent) return;
    data.textContent = news.textContent;
    if (window.Plotly) drawPlot(plot, Plotly.react);
  });
  return true;
}

function replace(section, fresh) {
  const focused = section.contains(document.activeElement) ? document.activeElement : null;
  const place = focused ? Array.from(section.querySelectorAll("a, button, input, summary, [tabindex]")).indexOf(focused) : -1;
  const scrolled = Array.from(section.querySelectorAll(".scroll"), (box) => [box.scrollLeft, box.scrollTop]);
  const open = Array.from(section.querySelectorAll("details"), (one) => one.open);
  if (window.Plotly) section.querySelectorAll("div.plot").forEach((plot) => Plotly.purge(plot));
  section.replaceChildren(...fresh.childNodes);
  section.querySelectorAll(".scroll").forEach((box, number) => {
    if (scrolled[number]) [box.scrollLeft, box.scrollTop] = scrolled[number];
  });
  section.querySelectorAll("details").forEach((one, number) => { one.open = open[number] ?? false; });
  if (place >= 0) section.querySelectorAll("a, button, input, summary, [tabindex]")[place]?.focus();
  makeSortable(section);
  if (window.Plotly) section.querySelectorAll("div.plot").forEach((plot) => drawPlot(plot));
}

function show(id, html) {
  const section = document.getElementById(id);
  if (!section || shown.get(id) === html) return;
  const first = !shown.has(id);
  shown.set(id, html);
  const fresh = document.createElement("template");
  fresh.innerHTML = html;  // text of unknown origin was escaped by the desk
  if (first && section.innerHTML === fresh.innerHTML) return;
  if (!setPlots(section, fresh.content)) replace(section, fresh.content);
  tell();
}

// -- events ---------------------------------------------------------------------------------------

let stream = null;

function receive(event) {
  const news = JSON.parse(event.data);
  for (const [id, html] of Object.entries(news))
    if (id === "refetch") fetchRows(); else show(id, html);
}

function listen() {
  if (stream || !main?.dataset.events || document.hidden) return;
  stream = new EventSource(main.dataset.events);
  stream.addEventListener("message", receive);
  stream.addEventListener("error", () => {
    const ended = stream?.readyState === EventSource.CLOSED;
    complain(ended ? "The desk was stopped or started again: open the address that it has printed."
                   : "The desk does not answer. This page tries again.");
    if (ended) { stream = null; setTimeout(listen, 5000); }
  });
  stream.addEventListener("open", () => { shown.delete("banner"); complain(""); });
}

function complain(text) {
  const banner = document.getElementById("banner");
  if (!banner) return;
  shown.delete("banner");
  shown.delete("state");
  if (!text) return;
  const notice = document.createElement("p");
  notice.className = "notice bad-notice";
  notice.textContent = text;
  banner.replaceChildren(notice);
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) { stream?.close(); stream = null; } else { listen(); tell(); }
});

// -- ages and times -------------------------------------------------------------------------------

const UNITS = [[86400, "days"], [3600, "h"], [60, "min"]];

function length(seconds) {
  for (const [size, unit] of UNITS)
    if (seconds >= 2 * size) return `${Math.round(seconds / size)} ${unit}`;
  return `${Math.max(Math.round(seconds), 0)} s`;
}

function tell() {
  const now = Date.now() / 1000;
  for (const time of document.querySelectorAll("time[data-age]"))
    setText(time, `${length(now - Number(time.dataset.age))} ago`);
  for (const time of document.querySelectorAll("time[data-until]")) {
    const left = Number(time.dataset.until) - now;
    setText(time, left > 0 ? `${length(left)} left` : "over");
  }
}

function setText(element, text) {
  if (!element.title) element.title = element.dateTime;
  if (element.textContent !== text) element.textContent = text;
}

// -- the fleet ------------------------------------------------------------------------------------

const searching = document.querySelector("#searching form");
let turn = 1, asking = 0, typing = 0;

async function fetchRows() {
  const rows = document.getElementById("rows");
  if (!searching || !rows) return;
  const fields = new URLSearchParams(new FormData(searching));
  fields.set("page", turn);
  const mine = ++asking;
  try {
    const answer = await fetch("/fleet/rows", { method: "POST", body: fields });
    if (answer.ok && mine === asking) show("rows", await answer.text());
  } catch (error) { /* the stream of events reports it */ }
}

if (searching) {
  const search = () => { turn = 1; clearTimeout(typing); typing = setTimeout(fetchRows, 150); };
  searching.addEventListener("input", search);
  searching.addEventListener("submit", (event) => { event.preventDefault(); search(); });
  document.getElementById("rows").addEventListener("submit", (event) => {
    event.preventDefault();
    turn = Number(event.submitter.value);
    fetchRows().then(() => document.getElementById("rows").scrollIntoView({ block: "start" }));
  });
}

// -- certificates that are dropped ----------------------------------------------------------------

const drop = document.getElementById("drop");
const MAX_FILE = 20000;

async function take(file) {
  const text = drop.querySelector("textarea");
  text.setCustomValidity("");
  if (file.size > MAX_FILE) {
    text.setCustomValidity(`The file has ${file.size} bytes; a certificate has at most 8,192.`);
    text.reportValidity();
    return;
  }
  text.value = await file.text();
}

if (drop) {
  const choose = document.getElementById("file");
  choose.hidden = false;
  choose.addEventListener("change", () => choose.files[0] && take(choose.files[0]));
  drop.addEventListener("input", (event) => event.target.setCustomValidity?.(""));
  for (const kind of ["dragover", "dragleave", "drop"])
    drop.addEventListener(kind, (event) => {
      event.preventDefault();
      drop.classList.toggle("over", kind === "dragover");
      if (kind === "drop" && event.dataTransfer.files[0]) take(event.dataTransfer.files[0]);
    });
}

tell();
setInterval(tell, 1000);
listen();
