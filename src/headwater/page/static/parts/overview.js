// One word for every view and source, and sentences for what is wrong and what to do.
import { html, useState, useEffect, useRef, num, span, ago, plural, useTick, link, age, Dot, Word } from "../lib.js";
import { rate } from "../live.js";

const RANK = { bad: 0, warn: 1, idle: 2, good: 3 };
const MANY = 12;
const BEHIND = 60;

function headline(live) {
  if (!live.cut) return ["Nothing is maintained yet.", html`Run <code>headwater run</code> in the project's folder: it loads the views and keeps them current. This page will notice.`];
  const cut = html`cut ${num(live.cut.number)}, at transaction ${num(live.cut.seq)}, ${ago(live.cut.at)}`;
  const troubled = live.views.filter((v) => v.grade === "bad" || v.grade === "warn").length;
  if (!live.running) return ["Nothing runs.", html`The last cut was ${cut}. Everything can be read and travelled as it was then; <code>headwater run</code> brings it up to date.`];
  const away = live.sources.filter((s) => s.grade === "bad" || s.grade === "warn").length;
  if (troubled || away) {
    const who = [troubled ? `${troubled} of ${plural(live.views.length, "view")}` : "", away ? `${away} of ${plural(live.sources.length, "source")}` : ""].filter(Boolean).join(" and ");
    const rest = away ? "Views that need what is away wait, the others go on." : "The others show what their sources committed.";
    return [`${who} ${troubled + away === 1 ? "needs" : "need"} attention.`, html`${rest} The newest is ${cut}.`];
  }
  const waits = live.numbered - live.cut.seq;
  const oldest = Math.max(0, ...live.views.map((v) => (v.since ? age(v) : 0)));
  if (waits > 0 && oldest > BEHIND) return ["Catching up.", html`${plural(waits, "transaction")} on the way, the oldest committed ${span(oldest)} ago. The newest is ${cut}.`];
  return [`${live.views.length === 1 ? "The view is" : `All ${num(live.views.length)} views are`} current.`,
    waits > 0 ? html`${plural(waits, "transaction")} on the way; the newest is ${cut}.` : html`They show every transaction that their sources committed. The newest is ${cut}.`];
}

function Figures({ live, samples }) {
  const totals = live.totals;
  if (!totals) return null;
  const c = totals.counts;
  const perSecond = rate(samples);
  const figures = [
    ["Freshness, last minute", totals.lag_p50 === null ? html`– <small>quiet</small>` : html`${span(totals.lag_p50)} <small>p50</small>`],
    ["Transactions", perSecond === null ? num(c.transactions) : html`${perSecond < 10 ? perSecond.toFixed(1) : num(Math.round(perSecond))}<small>a second</small>`],
    ["On the way", num(Math.max(0, live.numbered - live.cut.seq))],
    ["Cuts, this run", num(c.batches)],
    ["Questions", html`${num(c.questions)}<small>${c.computed ? `${(c.questions / c.computed).toFixed(1)} a batch` : ""}</small>`],
  ];
  return html`<dl class="figures">${figures.map(([label, value]) => html`<div class="figure"><dt>${label}</dt><dd>${value}</dd></div>`)}</dl>`;
}

function Findings({ findings }) {
  const [all, set] = useState(false);
  if (!findings.length) return null;
  const shown = all ? findings : findings.slice(0, 6);
  return html`<ul class="findings" aria-label="what is wrong">
    ${shown.map((f) => html`<li class=${f.grade}><p><strong>${f.what}</strong></p>${f.fix && html`<p>${f.fix}</p>`}</li>`)}
    ${findings.length > shown.length && html`<li class="more"><button class="plain" onClick=${() => set(true)}>and ${num(findings.length - shown.length)} more</button></li>`}
  </ul>`;
}

function Load({ load, building }) {
  if (load) {
    const done = load.total ? ` of about ${num(load.total)}` : "";
    return html`<p class="lead">Loading ${load.views.join(", ")}: ${load.step}, ${num(load.rows)}${done} rows.</p>`;
  }
  if (building) return html`<p class="lead">Building ${[...building.views, ...building.drop.map((n) => `−${n}`)].join(", ")}: ${building.phase}.</p>`;
  return null;
}

const Fresh = ({ view }) => {
  const seconds = age(view);
  const late = view.target && seconds !== null && seconds > view.target;
  return html`<span class=${late ? "word warn" : ""}>${span(seconds)}</span>${view.target ? html`<span class="faint"> / ${span(view.target)}</span>` : null}`;
};

function Views({ live }) {
  const [text, set] = useState("");
  const box = useRef();
  useEffect(() => {
    const slash = (e) => { if (e.key === "/" && box.current && !/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName)) { e.preventDefault(); box.current.focus(); } };
    addEventListener("keydown", slash);
    return () => removeEventListener("keydown", slash);
  }, []);
  if (!live.views.length) return null;
  const wanted = text.trim().toLowerCase();
  const views = live.views.filter((v) => !wanted || v.name.toLowerCase().includes(wanted) || v.word.includes(wanted) || v.sources.some((s) => s.toLowerCase() === wanted))
    .sort((a, b) => RANK[a.grade] - RANK[b.grade] || a.name.localeCompare(b.name));
  return html`<section>
    <div class="head"><h2>${plural(live.views.length, "view")}</h2>
      ${live.views.length > MANY && html`<input ref=${box} type="search" placeholder="Find a view or a source  /" aria-label="Find a view" value=${text} onInput=${(e) => set(e.target.value)} />`}</div>
    <div class="scroll"><table>
      <thead><tr><th>view</th><th>state</th><th class="wide">level</th><th class="number">freshness</th><th class="number wide">shown up to</th><th class="wide">waits for</th></tr></thead>
      <tbody>${views.map((v) => html`<tr key=${v.name}>
        <td><a class="name" href=${link("map", v.name)}><${Dot} grade=${v.grade} />${v.name}</a></td>
        <td><${Word} of=${v} /></td>
        <td class="wide soft">${v.level}${v.every > 1 ? `, every ${num(v.every)}` : ""}${v.kept_for ? html` <span class="faint">for ${v.kept_for}</span>` : ""}</td>
        <td class="number"><${Fresh} view=${v} /></td>
        <td class="number wide">${num(v.seq)}</td>
        <td class="wide soft">${v.waits ? html`${v.waits}${v.waits_since ? html`<span class="faint">, ${ago(v.waits_since).replace(" ago", "")}</span>` : ""}` : html`<span class="faint">–</span>`}</td>
      </tr>`)}</tbody>
    </table></div>
    ${!views.length && html`<p class="empty">No view is called so.</p>`}
  </section>`;
}

const Sources = ({ live }) => html`<section>
  <div class="head"><h2>${plural(live.sources.length, "source")}</h2></div>
  <div class="scroll"><table>
    <thead><tr><th>source</th><th>state</th><th class="wide">kind</th><th class="number">lag</th><th class="number">transactions, this run</th></tr></thead>
    <tbody>${[...live.sources].sort((a, b) => RANK[a.grade] - RANK[b.grade]).map((s) => html`<tr key=${s.name}>
      <td><span class="name"><${Dot} grade=${s.grade} />${s.name}</span></td><td><${Word} of=${s} /></td>
      <td class="wide soft">${s.kind}</td><td class="number">${span(s.lag)}</td><td class="number">${num(s.transactions)}</td></tr>`)}</tbody>
  </table></div></section>`;

export function Overview({ live, samples }) {
  useTick();
  const [title, lead] = headline(live);
  return html`<section><h1>${title}</h1><p class="lead">${lead}</p>
    <${Load} ...${live} />
    <${Findings} findings=${live.findings} />
    <${Figures} live=${live} samples=${samples} /></section>
    <${Views} live=${live} /><${Sources} live=${live} />`;
}
