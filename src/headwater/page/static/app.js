// The frame: parts on the left, the part that the address names on the right.
import { html, render, useState, useEffect, useRef, route, link, num, ago, useTick, Dot, Failure } from "./lib.js";
import { useLive } from "./live.js";
import { Overview } from "./parts/overview.js";
import { Flow } from "./parts/map.js";
import { Painting } from "./parts/painting.js";
import { Travel } from "./parts/travel.js";
import { Query } from "./parts/query.js";
import { Freshness } from "./parts/freshness.js";
import { Trust } from "./parts/trust.js";
import { Lab } from "./parts/lab.js";

const PARTS = [
  ["overview", "Overview", Overview], ["map", "Map", Flow], ["painting", "Painting", Painting],
  ["travel", "Time travel", Travel], ["query", "Query", Query], ["freshness", "Freshness", Freshness], ["trust", "Trust", Trust], ["lab", "Lab", Lab],
];

const Mark = () => html`<svg viewBox="0 0 32 32" fill="none" stroke="var(--accent)" stroke-width="2.8" stroke-linecap="round" aria-hidden="true"><path d="M4 6c10 0 9 10 18 10h7"/><path d="M4 16h25"/><path d="M4 26c10 0 9-10 18-10"/></svg>`;

function Pulse({ live, connected, trouble }) {
  useTick();
  if (connected && trouble) return html`<div class="pulse" role="status"><${Dot} grade="bad" /> nothing can be read</div>`;
  if (!live) return html`<div class="pulse">${trouble ? "not connected" : "connecting …"}</div>`;
  if (!connected) return html`<div class="pulse" role="status"><${Dot} grade="bad" /> ${trouble ? "not connected" : "the page's server is away"}</div>`;
  const cut = live.cut;
  return html`<div class="pulse">
    <div><${Dot} grade=${live.running ? "good" : "idle"} /> <b>${live.running ? "running" : "nothing runs"}</b></div>
    ${cut && html`<div class="n">cut ${num(cut.number)}, ${ago(cut.at)}</div>`}
  </div>`;
}

function App() {
  const [at, set] = useState(route());
  const state = useLive();
  const main = useRef();
  useEffect(() => { const moved = () => set(route()); addEventListener("hashchange", moved); return () => removeEventListener("hashchange", moved); }, []);
  const [key, title, Part] = PARTS.find(([name]) => name === at.part) || PARTS[0];
  const first = useRef(true);
  useEffect(() => {
    document.title = `${title} · ${state.live ? state.live.project : "Headwater"}`;
    const tab = document.querySelector(".parts [aria-current]");
    if (tab) tab.scrollIntoView({ block: "nearest", inline: "center" });
  }, [key, Boolean(state.live)]);
  useEffect(() => { if (state.live) performance.mark("headwater-content"); }, [Boolean(state.live)]); // for bench/page_cost.py
  useEffect(() => {
    if (first.current) { first.current = false; return; }
    scrollTo(0, 0);
    if (main.current) main.current.focus({ preventScroll: true });
  }, [key]);
  const { live, trouble } = state;
  return html`<div class="frame">
    <a class="skip" href="#main" onClick=${(e) => { e.preventDefault(); main.current.focus(); }}>to the content</a>
    <header class="side">
      <a class="brand" href="#/"><${Mark} />Headwater</a>
      <div class="project" title=${live ? live.project : ""}>${live ? live.project : " "}</div>
      <nav class="parts" aria-label="parts">${PARTS.map(([name, label]) => html`
        <a href=${link(name)} aria-current=${name === key ? "page" : undefined}>${label}${name === "overview" && live && live.findings.length ? html`<span class="count n">${num(live.findings.length)}</span>` : null}</a>`)}</nav>
      <${Pulse} ...${state} />
    </header>
    <main ref=${main} tabindex="-1" id="main">${trouble && html`<div class="trouble"><${Failure} error=${trouble} />${live && html`<p class="note">What is shown below is what was known last.</p>`}</div>`}
      ${live ? html`<${Part} key=${key} live=${live} samples=${state.samples} args=${at.args} params=${at.params} />` : trouble ? null : html`<p class="empty">One moment …</p>`}</main>
  </div>`;
}

const page = document.getElementById("page");
page.replaceChildren(); // what was there to be seen before this ran
render(html`<${App} />`, page);
