// What all parts share: Preact, how numbers and times are said, how the server is asked.
import { html, render, useState, useEffect, useRef, useMemo, useCallback } from "./vendor/htm-preact.js";
export { html, render, useState, useEffect, useRef, useMemo, useCallback };

const thousands = new Intl.NumberFormat("en-US");
export const num = (n) => (n === null || n === undefined ? "–" : thousands.format(n));

export function span(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 120) return seconds < 10 ? `${seconds.toFixed(1)} s` : `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} days`;
}

export function size(bytes) {
  const units = ["bytes", "KB", "MB", "GB", "TB"];
  let unit = 0;
  while (bytes >= 1000 && unit < units.length - 1) { bytes /= 1000; unit += 1; }
  return `${unit ? bytes.toFixed(1) : bytes} ${units[unit]}`;
}

export const plural = (n, one, many = `${one}s`) => `${num(n)} ${n === 1 ? one : many}`;
const day = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
export const when = (seconds) => (seconds ? day.format(new Date(seconds * 1000)) : "–");

// The server's clock counts: `skew` is how far this one is from it.
let skew = 0;
export const setServerTime = (seconds) => { skew = seconds - Date.now() / 1000; };
export const serverNow = () => Date.now() / 1000 + skew;
export const ago = (seconds) => `${span(Math.max(0, serverNow() - seconds))} ago`;

export function useTick(milliseconds = 1000) {
  const [, set] = useState(0);
  useEffect(() => { const timer = setInterval(() => { if (!document.hidden) set((n) => n + 1); }, milliseconds); return () => clearInterval(timer); }, []);
}

// A stream of events, while somebody looks: a browser opens six connections to one server at most, and tabs in the
// background would hold them all. `away(refused)` is told when it breaks; it is opened again either way.
const AGAIN = 3000;
export function follow(path, takes, away = () => {}) {
  let source = null, timer = null;
  const close = () => { clearTimeout(timer); if (source) source.close(); source = null; };
  const open = () => {
    clearTimeout(timer);
    if (source || document.hidden) return;
    source = new EventSource(path);
    for (const [name, take] of Object.entries(takes)) source.addEventListener(name, (event) => take(JSON.parse(event.data)));
    source.onerror = () => {
      const refused = source !== null && source.readyState === EventSource.CLOSED; // else the browser tries again by itself
      away(refused);
      if (refused) { close(); timer = setTimeout(open, AGAIN); }
    };
  };
  const turn = () => (document.hidden ? close() : open());
  document.addEventListener("visibilitychange", turn);
  addEventListener("pagehide", close);
  addEventListener("pageshow", turn);
  open();
  return () => { document.removeEventListener("visibilitychange", turn); removeEventListener("pagehide", close); removeEventListener("pageshow", turn); close(); };
}

export async function ask(path, options) {
  const response = await fetch(path, options);
  if (response.ok) return response;
  const text = (await response.text().catch(() => "")).trim();
  let said = null;
  try { said = JSON.parse(text); } catch { /* plain words */ }
  throw said && said.error ? said : { error: text || `the server answered ${response.status}`, fix: "" };
}

// Data of an address, asked again when `key` changes; the old stays until the new is there.
export function useData(path, key = "") {
  const [state, set] = useState({ data: null, error: null, path: null });
  const asked = useRef({ path: null, busy: false, again: false, gone: false });
  useEffect(() => () => { asked.current.gone = true; }, []);
  useEffect(() => {
    const mine = asked.current;
    if (!path) return;
    if (mine.busy && mine.path === path) { mine.again = true; return; } // one at a time, however often things change
    const turn = () => {
      mine.path = path; mine.busy = true; mine.again = false;
      const done = (next) => {
        if (mine.gone || mine.path !== path) return; // somebody asks for something else by now
        mine.busy = false;
        set(next);
        if (mine.again) turn();
      };
      ask(path).then((r) => r.json()).then(
        (data) => done({ data, error: null, path }),
        (error) => done((s) => ({ ...s, path, error: error.error ? error : { error: "the page's server does not answer", fix: "is 'headwater ui' still running?" } })));
    };
    turn();
  }, [path, key]);
  return state;
}

// What the page was told to do, as it goes on; `start` returns an error that can be shown, or nothing.
export function useWork() {
  const [work, set] = useState({ now: null, done: [], may_apply: false });
  useEffect(() => follow("/api/work/events", { work: set }), []);
  const start = (wanted) => ask("/api/work", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(wanted) }).then((r) => r.json()).then((told) => { set(told); return null; }, (error) => error);
  const stop = () => ask("/api/work", { method: "DELETE" }).then(() => null, (error) => error);
  return [work, start, stop];
}

export const Dot = ({ grade }) => html`<span class=${`dot ${grade}`} aria-hidden="true"></span>`;
export const Word = ({ of }) => html`<span class=${`word ${of.grade}`}>${of.word}</span>`;
export const Failure = ({ error }) => (error ? html`<div class="error" role="alert"><p>${error.error}</p>${error.fix && html`<p>${error.fix}</p>`}</div>` : null);

export function age(view) {
  if (view.since) return Math.max(0, serverNow() - view.since);
  return view.last;
}

export const Rows = ({ table, added }) => html`
  <div class="data" tabindex="0" role="region" aria-label="rows"><table>
    <thead><tr>${table.columns.map((c) => html`<th class=${c.kind === "number" ? "number" : ""}>${c.name}<span class="type">${c.type}</span></th>`)}</tr></thead>
    <tbody>${table.rows.map((row) => html`<tr class=${added && added.has(JSON.stringify(row)) ? "added" : ""}>${row.map((value, i) =>
      value === null ? html`<td class="null">NULL</td>` : html`<td class=${table.columns[i].kind === "number" ? "number" : ""} title=${value.length > 40 ? value : undefined}>${value}</td>`)}</tr>`)}</tbody>
  </table></div>`;

export const link = (part, ...args) => `#/${[part, ...args.map((arg) => encodeURIComponent(arg).replaceAll("%40", "@"))].join("/")}`;
export function route() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [part, ...args] = path.split("/").map((s) => { try { return decodeURIComponent(s); } catch { return s; } });
  return { part: part || "overview", args, params: new URLSearchParams(query || "") };
}
export const go = (hash, replace = false) => { if (replace) { history.replaceState(null, "", hash); dispatchEvent(new HashChangeEvent("hashchange")); } else location.hash = hash; };
