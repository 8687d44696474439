// A slider over transactions: the rows of a view at that state, what changed, and the transaction that did it.
import { html, useState, useEffect, useMemo, num, when, plural, useData, link, go, Failure, Rows } from "../lib.js";

const Values = ({ row }) => row.map(([k, v], i) => html`${i ? ", " : ""}<span class="k">${k}</span> ${v === null ? html`<i class="faint">NULL</i>` : v}`);
const Changed = ({ changes, table }) => html`<ul class="change">${changes.map((c) => html`<li class=${c.count < 0 ? "less" : ""}>${table && html`<span class="t">${c.table}</span>`}<b>${c.count < 0 ? "−" : "+"}</b>${Math.abs(c.count) > 1 ? html` ${Math.abs(c.count)}× ` : " "}<${Values} row=${c.row} /></li>`)}</ul>`;

function Ticks({ cuts, low, high }) {
  const wide = Math.max(1, high - low);
  const lines = useMemo(() => [...new Set(cuts.filter((c) => c.seq >= low && c.seq <= high).map((c) => Math.round(((c.seq - low) / wide) * 1000)))], [cuts, low, high]);
  return html`<svg viewBox="0 0 1000 12" preserveAspectRatio="none" aria-hidden="true">${lines.map((x) => html`<line x1=${x} x2=${x} y1="0" y2="8" vector-effect="non-scaling-stroke" />`)}</svg>`;
}

const Cause = ({ t }) => html`<div><h2 style="margin:22px 0 8px">${t.source} <span class="note">transaction ${t.transaction}${t.global ? `, part of ${t.global}` : ""}, ${when(t.committed_at)}</span></h2>
  <${Changed} changes=${t.changes} table />${t.changed > t.changes.length && html`<p class="note">and ${plural(t.changed - t.changes.length, "more change")}</p>`}</div>`;

// Another view at the same state: a reader never sees one with a transaction that the other lacks.
function Beside({ name, at }) {
  const { data, error } = useData(`/api/travel?view=${encodeURIComponent(name)}&at=${at}`);
  const current = data && data.view === name ? data : null;
  return html`<section><div class="head"><h2>${name} ${current && html`<span class="note">${current.more ? `the first ${num(current.table.rows.length)} rows` : plural(current.table.rows.length, "row")}, at ${num(current.at)}</span>`}</h2></div>
    <${Failure} error=${error} />${current && html`<${Rows} table=${current.table} added=${addedBy(current)} />`}</section>`;
}

// Rows that the last transaction put there, if it was this one.
const addedBy = ({ change, at }) => (change && change.seq === at ? new Set(change.rows.filter((c) => c.count > 0).map((c) => JSON.stringify(c.row.map(([, v]) => v)))) : null);

export function Travel({ live, args }) {
  const cutAt = (args[0] || "").lastIndexOf("@"); // a view's name may hold one
  const whole = args[0] || "", numbered = cutAt >= 0 && /^\d+$/.test(whole.slice(cutAt + 1)) && !live.views.some((v) => v.name === whole);
  const name = numbered ? whole.slice(0, cutAt) : whole, said = numbered ? whole.slice(cutAt + 1) : "";
  const view = live.views.find((v) => v.name === name) || live.views[0];
  const at = said ? Number(said) : view ? view.seq : 0;
  const [drag, setDrag] = useState(null);
  const [copied, setCopied] = useState(false);
  const shown = drag === null ? at : drag;
  const asked = view ? `/api/travel?view=${encodeURIComponent(view.name)}&at=${at}` : null;
  const { data, error, path } = useData(asked);
  const { data: cuts } = useData("/api/cuts", live.cut ? live.cut.number : 0);
  const other = live.views.find((v) => v.name === args[1] && v !== view);
  const beside = other ? [other.name] : [];
  const to = (seq, replace = true) => go(link("travel", `${view.name}@${seq}`, ...beside), replace);
  useEffect(() => { if (drag === null) return undefined; const timer = setTimeout(() => { to(drag); setDrag(null); }, 140); return () => clearTimeout(timer); }, [drag]);
  if (!view) return html`<h1>Time travel</h1><p class="empty">There is nothing to travel yet: no view has been loaded.</p>`;
  const low = view.horizon, high = Math.max(view.seq, view.horizon);
  const made = cuts && cuts.find((c) => c.seq >= shown);
  const current = data && data.view === view.name ? data : null;
  const settled = current && drag === null && (path === asked || !said); // who follows the newest is always a little behind
  const change = current && current.change;
  const here = change && change.seq === current.at;
  const added = current ? addedBy(current) : null;
  const copy = () => { navigator.clipboard.writeText(location.href.split("#")[0] + link("travel", `${view.name}@${at}`, ...beside)).then(() => { setCopied(true); setTimeout(() => setCopied(false), 1500); }, () => {}); };
  return html`<section><h1>Every transaction is a state</h1>
    <p class="lead">Move through the history of a view. What you see at a transaction is what a reader saw, or could have seen, right after it.</p>
    <div class="bar" style="margin-top:24px">
      <label>View <select value=${view.name} onChange=${(e) => go(link("travel", e.target.value))}>${live.views.map((v) => html`<option value=${v.name}>${v.name}</option>`)}</select></label>
      ${live.views.length > 1 && html`<label>Beside <select value=${other ? other.name : ""} onChange=${(e) => go(link("travel", said ? `${view.name}@${at}` : view.name, ...(e.target.value ? [e.target.value] : [])))}><option value="">none</option>${live.views.filter((v) => v !== view).map((v) => html`<option value=${v.name}>${v.name}</option>`)}</select></label>`}
      <label>Transaction <input type="number" min=${low} max=${high} value=${shown} onChange=${(e) => to(Math.min(high, Math.max(low, Number(e.target.value))), false)} style="width:9em" /></label>
      <span class="bar end"><button disabled=${!settled || current.previous_change === null} onClick=${() => to(current.previous_change, false)}>Previous change</button>
        <button disabled=${!settled || current.next === null} onClick=${() => to(current.next, false)}>Next change</button><button disabled=${!said} title="follow the newest state" onClick=${() => go(link("travel", view.name, ...beside))}>Newest</button><button onClick=${copy}>${copied ? "Copied" : "Copy link"}</button></span></div>
    <div class="slider"><input type="range" min=${low} max=${high} step="1" value=${shown} aria-label="transaction" onInput=${(e) => setDrag(Number(e.target.value))} />
      ${cuts && html`<${Ticks} cuts=${cuts} low=${low} high=${high} />`}
      <div class="ends n"><span>${num(low)}, the oldest kept</span><span>each mark is a cut</span><span>${num(high)}, the newest</span></div></div>
    <div class="moment"><span class="big">${num(shown)}</span><span class="soft">${[said ? "" : "the newest", made ? `shown since cut ${num(made.cut)}, ${when(made.at)}` : "", said && current && current.at !== at && drag === null ? `the state of ${view.name} is that of ${num(current.at)}` : ""].filter(Boolean).join("; ")}</span></div>
    <${Failure} error=${error} /></section>
    ${!current && !error && html`<p class="empty" role="status">Reading …</p>`}
    ${current && html`<div class="two"><section>
        <div class="head"><h2>${current.more ? `The first ${num(current.table.rows.length)} rows` : plural(current.table.rows.length, "row")}</h2>${current.more && html`<a href=${`#/query?at=${current.at}&sql=${encodeURIComponent(`SELECT * FROM "${view.name.replaceAll('"', '""')}"`)}`}>Query them all</a>`}</div>
        ${current.table.rows.length ? html`<${Rows} table=${current.table} added=${added} />` : html`<p class="empty">The view is empty at this state.</p>`}
        ${other && html`<${Beside} key=${other.name} name=${other.name} at=${at} />`}</section>
      <section style="margin:0"><div class="head"><h2>${here ? "What this transaction changed" : change ? `This one changed nothing here; the last that did was ${num(change.seq)}` : "No change is kept up to here"}</h2></div>
        ${change && html`<${Changed} changes=${change.rows} />${change.changed > change.rows.length && html`<p class="note">and ${plural(change.changed - change.rows.length, "more row")}</p>`}
        ${change.transactions.map((t) => html`<${Cause} t=${t} />`)}
        ${!change.transactions.length && html`<p class="note" style="margin-top:12px">The journal has forgotten the transaction itself.</p>`}`}</section></div>`}`;
}
