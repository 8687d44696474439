// Commit to visible over time: p50 and p99 of what each cut showed first, and how much that was.
import { html, useState, useEffect, useRef, num, span, when, link, go, useData, age, Failure, useTick } from "../lib.js";

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function Plot({ data, series, height, unit, onPick }) {
  const box = useRef();
  const [dark, set] = useState(0);
  useEffect(() => { const media = matchMedia("(prefers-color-scheme: dark)"); const turn = () => set((n) => n + 1); media.addEventListener("change", turn); return () => media.removeEventListener("change", turn); }, []);
  const plot = useRef();
  const [uPlot, setPlot] = useState(null);
  useEffect(() => { import("../vendor/uplot.js").then((m) => setPlot(() => m.default)); }, []); // only here, and it is large
  const shape = JSON.stringify([series, dark]);
  useEffect(() => {
    if (!uPlot) return undefined;
    const axis = { stroke: color("faint"), font: "12px Inter, system-ui", grid: { stroke: color("line"), width: 1 }, ticks: { show: false } };
    plot.current = new uPlot({
      width: box.current.clientWidth, height, cursor: { drag: { x: true, y: false }, points: { size: 6 } },
      scales: { y: { range: (u, low, high) => [0, Math.max(high || 0, 0.001) * 1.08] } },
      axes: [{ ...axis, space: 90, grid: { show: false } }, { ...axis, size: 62, values: (u, ticks) => ticks.map(unit) }],
      series: [{}, ...series.map((s) => ({ label: s.label, stroke: color(s.color), width: s.width || 1.6, dash: s.dash, fill: s.fill ? `${color(s.color)}22` : undefined, points: { show: false } }))],
    }, data, box.current);
    if (onPick) plot.current.over.addEventListener("click", () => { const at = plot.current.posToVal(plot.current.cursor.left, "x"); if (at) onPick(at); });
    const resize = new ResizeObserver(() => plot.current.setSize({ width: box.current.clientWidth, height }));
    resize.observe(box.current);
    return () => { resize.disconnect(); plot.current.destroy(); plot.current = null; };
  }, [shape, uPlot]);
  useEffect(() => { if (plot.current) plot.current.setData(data); }, [data]);
  return html`<div class="plot" ref=${box}></div>`;
}

// Where nothing was shown for long, a line across would say something that was not so.
function pauses(points) {
  const gaps = points.slice(1).map((p, i) => p.at - points[i].at);
  const usual = [...gaps].sort((a, b) => a - b)[Math.floor(gaps.length / 2)] || 0;
  return gaps.flatMap((gap, i) => (gap > Math.max(120, 20 * usual) ? [i + 1] : []));
}
const lastPause = (points) => { const found = pauses(points).filter((i) => points.length - i > 3); return found.length ? found.at(-1) : 0; };
function parted(points) {
  const cuts = new Set(pauses(points));
  return points.flatMap((p, i) => (cuts.has(i) ? [{ at: points[i - 1].at + 1, p50: null, p99: null, transactions: 0, cuts: 0 }, p] : [p]));
}

const Key = ({ name, label }) => html`<span><i ref=${(e) => { if (e) e.style.borderColor = `var(--${name})`; }}></i>${label}</span>`;

// What everything waited for then: steps that add up to the time from commit to visible.
function Moment({ view, at, pick, newest }) {
  const { data, error } = useData(`/api/moment?${new URLSearchParams({ ...(view ? { view } : {}), ...(at ? { at } : {}) })}`, at ? "" : newest);
  const found = data && data.moment;
  const longest = found ? found.steps.reduce((a, b) => (b.seconds > a.seconds ? b : a)) : null;
  return html`<section><div class="head"><h2>${at ? "What that moment waited for" : "What the newest cut waited for"}</h2>
      <span class="bar"><button disabled=${!data || !data.previous} onClick=${() => pick(data.previous)}>Earlier</button><button disabled=${!data || !data.next} onClick=${() => pick(data.next)}>Later</button><button disabled=${!at} onClick=${() => pick(null)}>Newest</button></span></div>
    <${Failure} error=${error} />
    ${data && !found && html`<p class="soft">The run has told nothing of ${view || "its cuts"} yet: it tells the way of its newest cuts while it runs, and the page remembers those that it was told of.</p>`}
    ${found && html`<p class="soft">Cut ${num(found.cut)}, ${when(found.at)}: <b>${span(found.seconds)}</b> from the oldest commit that ${found.view} showed with it. Most of it, ${span(longest.seconds)}: <b>${longest.who}</b> ${longest.what}.</p>
      <ol class="path" aria-label="steps from commit to visible">${found.steps.map((s) => html`<li class=${s === longest ? "longest" : ""}><span class="who">${s.who}</span><span class="track"><i style=${`margin-left:${(100 * (s.begin - found.begin)) / found.seconds}%;width:${Math.max(0.4, (100 * s.seconds) / found.seconds)}%`}></i></span><span class="n took">${span(s.seconds)}</span><span class="what">${s.what}${s.note ? `; ${s.note}` : ""}</span></li>`)}</ol>
      ${found.others.length > 0 && html`<p class="note">In the same cut: ${found.others.map((o) => `${o.view} (computed in ${span(o.seconds)}, ${num(o.questions)} questions)`).join(", ")}${found.batches > found.others.length + 1 ? ` and ${num(found.batches - found.others.length - 1)} more` : ""}.</p>`}`}</section>`;
}

export function Freshness({ live, args }) {
  useTick(2000);
  const name = live.views.some((v) => v.name === args[0]) ? args[0] : "";
  const { data, error } = useData(live.cut ? `/api/freshness${name ? `?view=${encodeURIComponent(name)}` : ""}` : null, live.cut && live.cut.number);
  const [whole, setWhole] = useState(false), [picked, pick] = useState(null);
  if (!live.cut) return html`<h1>Freshness</h1><p class="empty">Nothing has been shown yet.</p>`;
  const every = data ? data.points.filter((p) => p.p50 !== null) : [];
  const pause = lastPause(every);
  const points = whole ? parted(every) : every.slice(pause);
  const known = points.filter((p) => p.p50 !== null);
  const times = points.map((p) => p.at);
  const rates = points.map((p, i) => (i && p.at > points[i - 1].at ? p.transactions / (p.at - points[i - 1].at) : null));
  const target = data && data.target;
  return html`<section><h1>From commit to visible</h1>
    <p class="lead">How long a transaction takes from its commit at the source until a cut shows it. Measured from what the journal and the cut records say, so it is there also when nothing runs.</p>
    <div class="bar" style="margin-top:24px"><label>View <select value=${name} onChange=${(e) => go(e.target.value ? link("freshness", e.target.value) : link("freshness"))}><option value="">all together</option>${live.views.map((v) => html`<option value=${v.name}>${v.name}</option>`)}</select></label></div>
    <${Failure} error=${error} />
    ${data && html`<dl class="figures"><div class="figure"><dt>p50</dt><dd>${span(data.all.p50)}</dd></div><div class="figure"><dt>p99, worst</dt><dd>${span(data.all.p99)}</dd></div><div class="figure"><dt>Transactions</dt><dd>${num(points.reduce((n, p) => n + p.transactions, 0))}</dd></div><div class="figure"><dt>Cuts</dt><dd>${num(points.reduce((n, p) => n + p.cuts, 0))}</dd></div></dl>`}</section>
    ${data && (known.length > 1 ? html`
      <section><div class="head"><h2>Seconds from commit to visible <span class="note">click a moment to see what it waited for</span></h2>${pause > 0 && html`<button class="plain" onClick=${() => setWhole(!whole)}>${whole ? "Since the last pause" : "All that is kept"}</button>`}</div>
        <${Plot} height=${280} unit=${span} onPick=${pick} data=${[times, points.map((p) => p.p50), points.map((p) => p.p99), ...(target ? [times.map(() => target)] : [])]}
          series=${[{ label: "p50", color: "accent", width: 2 }, { label: "p99", color: "faint" }, ...(target ? [{ label: "target", color: "warn", dash: [4, 4] }] : [])]} />
        <div class="keys"><${Key} name="accent" label="p50" /><${Key} name="faint" label="p99" />${target && html`<${Key} name="warn" label=${`target, ${span(target)}`} />`}</div></section>
      <section><div class="head"><h2>Transactions a second</h2></div><${Plot} height=${150} unit=${(n) => num(n)} data=${[times, rates]} series=${[{ label: "transactions/s", color: "accent", fill: true }]} /></section>`
      : html`<p class="empty">Too few transactions have been shown to draw a line.</p>`)}
    <${Moment} view=${name} at=${picked} pick=${pick} newest=${live.cut.number} />
    <section><div class="head"><h2>Now, by view</h2></div><div class="scroll"><table><thead><tr><th>view</th><th class="number">freshness</th><th class="number">target</th><th class="number">not shown yet</th><th class="number wide">rows changed, this run</th><th class="number wide">questions, this run</th></tr></thead>
      <tbody>${[...live.views].sort((a, b) => (age(b) ?? -1) - (age(a) ?? -1)).map((v) => html`<tr key=${v.name}><td><a class="name" href=${link("freshness", v.name)}>${v.name}</a></td><td class="number">${span(age(v))}</td><td class="number soft">${v.target ? span(v.target) : "–"}</td><td class="number">${num(Math.max(0, live.numbered - v.seq))}</td><td class="number wide">${num(v.rows_changed)}</td><td class="number wide">${num(v.questions)}</td></tr>`)}</tbody></table></div></section>`;
}
