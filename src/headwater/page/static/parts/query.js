// SQL over all views at one state; the address holds the question, so it can be sent to somebody.
import { html, useState, useEffect, useRef, num, plural, ask, go, useData, Failure, Rows } from "../lib.js";

const WORDS = ["SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "LIMIT", "JOIN", "count(*)", "sum(", "avg("];
const BARS = 30;

// The word before the cursor, and the names that begin like it.
function matches(text, at, names) {
  const word = /[\w.]*$/.exec(text.slice(0, at))[0];
  const begin = word.split(".").pop().toLowerCase();
  const found = begin ? names.filter((n) => n.toLowerCase().startsWith(begin) && n.toLowerCase() !== begin) : [];
  return { begin, found: found.slice(0, 12) };
}

function Chart({ table }) {
  const label = table.columns.findIndex((c) => c.kind !== "number"), value = table.columns.findIndex((c) => c.kind === "number");
  if (label < 0 || value < 0 || table.rows.length < 2 || table.rows.length > BARS || table.columns.length > 4) return null;
  const numbers = table.rows.map((r) => Number(r[value]));
  const most = Math.max(...numbers.map(Math.abs));
  if (!Number.isFinite(most) || !most) return null;
  return html`<div class="bars" role="img" aria-label=${`${table.columns[value].name} by ${table.columns[label].name}`}>${table.rows.map((r, i) => html`<span>${r[label] ?? "NULL"}</span><i ref=${(e) => { if (e) e.style.width = `${(100 * Math.abs(numbers[i])) / most}%`; }}></i><span class="number">${r[value]}</span>`)}</div>`;
}

export function Query({ live, params }) {
  const first = live.views[0];
  const [sql, setSql] = useState(params.get("sql") || (first ? `SELECT * FROM ${/^[a-z_]\w*$/.test(first.name) ? first.name : `"${first.name}"`}\nLIMIT 100` : ""));
  const [at, setAt] = useState(params.get("at") || "");
  const [answer, setAnswer] = useState(null);
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const [cursor, setCursor] = useState(0);
  const box = useRef();
  const mentioned = live.views.filter((v) => sql.toLowerCase().includes(v.name.toLowerCase())).slice(0, 1)[0];
  const { data: known } = useData(mentioned ? `/api/views/${encodeURIComponent(mentioned.name)}` : null);
  const names = [...live.views.map((v) => v.name), ...(known ? known.columns.map((c) => c.name) : []), ...WORDS];
  const { begin, found } = matches(sql, cursor, names);
  const question = (format) => ({ method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ sql, at: at.trim() || null, format }) });

  async function run() {
    if (busy || !sql.trim()) return;
    setBusy(true);
    setError(null);
    history.replaceState(null, "", `#/query?${new URLSearchParams({ sql, ...(at.trim() ? { at: at.trim() } : {}) })}`);
    const started = performance.now();
    try { const table = await (await ask("/api/query", question("json"))).json(); setAnswer({ ...table, took: performance.now() - started }); } catch (e) { setError(e.error ? e : { error: String(e.message || e), fix: "" }); setAnswer(null); }
    setBusy(false);
  }
  async function download(format) {
    try {
      const blob = await (await ask("/api/query", question(format))).blob();
      const a = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: `query.${format}` });
      a.click();
      setTimeout(() => URL.revokeObjectURL(a.href), 1000);
    } catch (e) { setError(e.error ? e : { error: String(e.message || e), fix: "" }); }
  }
  function complete(name) {
    const place = box.current.selectionStart, next = sql.slice(0, place - begin.length) + name + sql.slice(place);
    setSql(next);
    requestAnimationFrame(() => { const end = place - begin.length + name.length; box.current.focus(); box.current.setSelectionRange(end, end); setCursor(end); });
  }
  const press = (e) => {
    if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) { e.preventDefault(); run(); }
    if (e.key === "Tab" && !e.shiftKey && found.length) { e.preventDefault(); complete(found[0]); }
  };
  useEffect(() => { if (params.get("sql")) run(); }, []);
  if (!live.views.length) return html`<h1>Query</h1><p class="empty">There is no view to ask yet.</p>`;
  return html`<section><h1>Ask all views at one cut</h1>
    <p class="lead">However many views a query joins, they are read at the same state. The dialect is DuckDB's; nothing can be changed here.</p>
    <textarea ref=${box} class="sql" spellcheck="false" autocapitalize="off" autocomplete="off" aria-label="SQL" value=${sql} onInput=${(e) => { setSql(e.target.value); setCursor(e.target.selectionStart); }} onClick=${(e) => setCursor(e.target.selectionStart)} onKeyUp=${(e) => setCursor(e.target.selectionStart)} onKeyDown=${press}></textarea>
    <div class="names" aria-live="polite">${(found.length ? found : live.views.map((v) => v.name).slice(0, 8)).map((n) => html`<button class=${found.length ? "match" : ""} title=${found.length ? "Tab takes the first" : "put it in"} onClick=${() => complete(n)}>${n}</button>`)}</div>
    <div class="bar"><button class="main" onClick=${run} disabled=${busy}>${busy ? "Running …" : "Run"}</button><span class="note">Ctrl Enter</span>
      <label class="end">At <input type="text" placeholder="the newest state" title="a transaction, a time, or '10 minutes ago'" value=${at} onInput=${(e) => setAt(e.target.value)} /></label></div>
    <${Failure} error=${error} /></section>
    ${answer && html`<section><div class="head"><h2>${plural(answer.rows.length, "row")}${answer.more ? `, the first ${num(answer.limit)}` : ""} <span class="note">in ${Math.round(answer.took)} ms${Object.keys(answer.states).length ? `, at transaction ${num(Math.min(...Object.values(answer.states)))}` : ""}</span></h2>
      <span class="bar"><button onClick=${() => download("csv")}>CSV</button><button onClick=${() => download("parquet")}>Parquet</button></span></div>
      ${answer.rows.length ? html`<${Rows} table=${answer} /><${Chart} table=${answer} />` : html`<p class="empty">No row answers it.</p>`}</section>`}`;
}
