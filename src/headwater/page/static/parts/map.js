// Sources on the left, views to the right of what they read; what an edge says is how far its view is behind.
import { rate } from "../live.js";
import { html, useState, useMemo, useEffect, useRef, num, span, size, useTick, useData, link, go, age, when, ago, Failure, plural } from "../lib.js";

const LABELLED = 40, FEW = 16, PHONE = 520;

// Columns by how many views lie between a node and its sources; in a column, near what each reads.
export function layout(live, room, wanted) {
  const nodes = new Map();
  for (const s of live.sources) nodes.set(`s:${s.name}`, { key: `s:${s.name}`, source: s, reads: [] });
  for (const v of live.views) nodes.set(`v:${v.name}`, { key: `v:${v.name}`, view: v, reads: [...v.sources.map((s) => `s:${s}`), ...v.parents.map((p) => `v:${p}`)] });
  for (const n of nodes.values()) n.reads = n.reads.filter((k) => nodes.has(k));
  if (wanted) { // what is looked for, and all that it comes from or goes to
    const readers = new Map();
    for (const n of nodes.values()) for (const k of n.reads) readers.set(k, [...(readers.get(k) || []), n.key]);
    const all = { nodes, readers };
    const keep = new Set([...nodes.values()].filter((n) => (n.source || n.view).name.toLowerCase().includes(wanted)).flatMap((n) => [...related(all, n.key)]));
    for (const key of [...nodes.keys()]) if (!keep.has(key)) nodes.delete(key);
    for (const n of nodes.values()) n.reads = n.reads.filter((k) => nodes.has(k));
  }
  const depth = (n, seen = new Set()) => {
    if (n.depth !== undefined) return n.depth;
    if (seen.has(n.key)) return 0;
    seen.add(n.key);
    n.depth = n.source ? 0 : 1 + Math.max(0, ...n.reads.map((k) => depth(nodes.get(k), seen)));
    return n.depth;
  };
  const columns = [];
  for (const n of nodes.values()) (columns[depth(n)] ||= []).push(n);
  for (let i = 0; i < columns.length; i += 1) columns[i] ||= [];
  const readers = new Map();
  for (const n of nodes.values()) for (const k of n.reads) readers.set(k, [...(readers.get(k) || []), n.key]);
  const place = (column) => column.forEach((n, i) => { n.row = i - column.length / 2; });
  columns.forEach(place);
  const mean = (keys, n) => (keys.length ? keys.reduce((sum, k) => sum + nodes.get(k).row, 0) / keys.length : n.row);
  for (let turn = 0; turn < 6; turn += 1) {
    columns.forEach((column) => { column.forEach((n) => { n.wish = mean(turn % 2 ? readers.get(n.key) || [] : n.reads, n); }); column.sort((a, b) => a.wish - b.wish || a.key.localeCompare(b.key)); place(column); });
  }
  const tallest = Math.max(1, ...columns.map((c) => c.length));
  const phone = room < PHONE, WIDTH = phone ? 130 : 200, NARROW = phone ? 58 : 118, MARGIN = phone ? 10 : 30;
  const few = tallest <= FEW, HEIGHT = few ? 46 : 28, DOWN = few ? 32 : 8;
  const ACROSS = Math.min(460, Math.max(NARROW, columns.length > 1 ? (room - 2 * MARGIN - columns.length * WIDTH) / (columns.length - 1) : 0));
  const height = tallest * (HEIGHT + DOWN) - DOWN + 2 * MARGIN;
  columns.forEach((column, c) => {
    const step = few ? Math.min((height - 2 * MARGIN + DOWN) / column.length, (HEIGHT + DOWN) * 2.4) : (height - 2 * MARGIN + DOWN) / Math.max(1, column.length);
    const top = MARGIN + (height - 2 * MARGIN + DOWN - step * column.length) / 2 + (step - DOWN - HEIGHT) / 2;
    column.forEach((n, i) => { n.x = MARGIN + c * (WIDTH + ACROSS); n.y = top + i * step; });
  });
  return { nodes, readers, few, tall: HEIGHT, wide: WIDTH, width: columns.length * (WIDTH + ACROSS) - ACROSS + 2 * MARGIN, height };
}

const curve = (a, b, { tall, wide }) => { const x = a.x + wide, y = a.y + tall / 2, u = b.x, v = b.y + tall / 2, m = (u - x) / 2; return `M${x} ${y}C${x + m} ${y} ${u - m} ${v} ${u} ${v}`; };
const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

function related(map, key) {
  const found = new Set([key]);
  const walk = (k, next) => { for (const other of next(k)) if (!found.has(other)) { found.add(other); walk(other, next); } };
  walk(key, (k) => map.nodes.get(k).reads);
  walk(key, (k) => map.readers.get(k) || []);
  return found;
}

function Node({ node, tall, wide, on, dim, over, open }) {
  const of = node.source || node.view;
  const sub = node.source ? `${node.source.kind}${node.source.transactions !== null ? `, ${num(node.source.transactions)} in` : ""}` : `${node.view.level}, ${num(node.view.seq)}`;
  const press = (e) => { if (e.key === "Enter" || e.key === " ") { e.preventDefault(); open(); } };
  return html`<g class=${`node ${node.source ? "source" : "view"} ${on ? "on" : ""} ${dim ? "dim" : ""}`} transform=${`translate(${node.x} ${node.y})`} tabindex="0" role="button"
      aria-label=${`${node.source ? "source" : "view"} ${of.name}, ${of.word}`} onMouseEnter=${() => over(node.key)} onMouseLeave=${() => over(null)} onFocus=${() => over(node.key)} onBlur=${() => over(null)} onClick=${open} onKeyDown=${press}>
    <rect width=${wide} height=${tall} rx=${tall > 30 ? 9 : 7} /><circle class=${of.grade} cx="17" cy=${tall > 30 ? 17 : 14} r="4" />
    <svg x="30" width=${wide - 36} height=${tall}><text y=${tall > 30 ? 21 : 18.5}>${cut(of.name, wide > 150 ? 24 : 15)}</text>${tall > 30 && html`<text class="sub" y="36">${cut(sub, wide > 150 ? 32 : 19)}</text>`}</svg><title>${of.name}: ${of.word}</title></g>`;
}

function Drawer({ live, name, close }) {
  const view = live.views.find((v) => v.name === name);
  const source = live.sources.find((s) => s.name === name && !view);
  const { data, error } = useData(view ? `/api/views/${encodeURIComponent(name)}` : null, view ? view.seq : "");
  const box = useRef();
  useEffect(() => {
    const escape = (e) => { if (e.key === "Escape") close(); };
    addEventListener("keydown", escape);
    if (box.current) box.current.focus({ preventScroll: true });
    return () => removeEventListener("keydown", escape);
  }, [name]);
  if (!view && !source) return null;
  const facts = source ? [["Kind", source.kind], ["State", source.word], ["Since", source.since ? ago(source.since) : "–"], ["Lag", span(source.lag)],
    ["Read by", live.views.filter((v) => v.sources.includes(name)).map((v) => v.name).join(", ") || "no view"]]
    : !data || data.name !== name ? [] : [["Level", `${data.level}${data.every > 1 ? `, every ${num(data.every)} transactions` : ""}`], ["State", view.word],
      ["Shown up to", `transaction ${num(data.seq)}`], ["History from", num(data.horizon)], ["Freshness", span(age(view))],
      ["Rows", data.rows === null ? "many" : num(data.rows)], ["Stored", `${size(data.bytes)} in ${plural(data.files, "file")}`],
      ...(data.maintenance ? [["Maintained by", data.maintenance]] : []), ...(data.kept_for ? [["Kept for", data.kept_for]] : []),
      ["Reads", [...data.tables].join(", ") || data.sources.join(", ")], ...(data.readers.length ? [["Read by", data.readers.join(", ")]] : [])];
  return html`<aside class="drawer" ref=${box} tabindex="-1" aria-label=${name}>
    <button class="close" onClick=${close} aria-label="close">Close</button>
    <h1>${name}</h1>
    ${view && html`<p class="bar" style="margin-top:10px"><a href=${link("travel", `${name}@${view.seq}`)}>Time travel</a><a href=${`#/query?sql=${encodeURIComponent(`SELECT * FROM "${name.replaceAll('"', '""')}"`)}`}>Query</a><a href=${link("freshness", name)}>Freshness</a></p>`}
    <${Failure} error=${error} />
    <dl class="facts">${facts.map(([k, v]) => html`<dt>${k}</dt><dd>${v}</dd>`)}</dl>
    ${data && data.name === name && html`
      ${data.sql && html`<h2>Definition${data.file && html` <span class="note">${data.file}</span>`}</h2><pre tabindex="0">${data.sql.trim()}</pre>`}
      ${data.plan.length > 0 && html`<h2>Plan</h2><pre tabindex="0">${data.plan.join("\n")}</pre>`}
      <h2>Columns</h2><pre tabindex="0">${data.columns.map((c) => `${c.name}  ${c.type}`).join("\n")}</pre>
      ${data.verdicts.length > 0 && html`<h2>Last verified</h2><p>${data.verdicts.at(-1).ok ? "Equal to its sources" : "Not equal to its sources"} at transaction ${num(data.verdicts.at(-1).seq)}, ${when(data.verdicts.at(-1).at)}</p>`}`}
  </aside>`;
}

export function Flow({ live, samples, args }) {
  useTick(2000);
  const [over, set] = useState(null);
  const [text, search] = useState("");
  const box = useRef();
  const [room, setRoom] = useState(0);
  useEffect(() => {
    if (!box.current) return undefined;
    const watch = new ResizeObserver(([entry]) => setRoom(Math.floor(entry.contentRect.width)));
    watch.observe(box.current);
    return () => watch.disconnect();
  }, [live.views.length > 0]);
  const shape = JSON.stringify([live.sources.map((s) => s.name), live.views.map((v) => [v.name, v.sources, v.parents])]);
  const wanted = text.trim().toLowerCase();
  const map = useMemo(() => layout(live, room, wanted), [shape, room, wanted]);
  for (const s of live.sources) if (map.nodes.has(`s:${s.name}`)) map.nodes.get(`s:${s.name}`).source = s;
  for (const v of live.views) if (map.nodes.has(`v:${v.name}`)) map.nodes.get(`v:${v.name}`).view = v;
  const opened = args[0];
  const near = over && map.nodes.has(over) ? related(map, over) : null;
  const edges = [...map.nodes.values()].flatMap((n) => n.reads.map((k) => [map.nodes.get(k), n]));
  const few = edges.length <= LABELLED;
  if (!live.views.length) return html`<h1>Map</h1><p class="empty">There is no view yet. Write one in views/, then <code>headwater run</code>.</p>`;
  return html`<section><h1>Where rows come from</h1>
    <p class="lead">Changes flow from left to right. An edge says how far its view is behind: transactions that have a number and are not shown, how long the oldest has waited, and how many questions a second its sources are asked for it.</p>
    ${live.views.length > 12 && html`<div class="bar" style="margin-top:20px"><input type="search" placeholder="Find" aria-label="Find a view or a source" value=${text} onInput=${(e) => search(e.target.value)} /></div>`}
    <div class="map" ref=${box} tabindex="0" role="region" aria-label="map"><svg width=${map.width} height=${map.height} role="group" aria-label="sources and views">
      ${edges.map(([a, b]) => { const on = near && near.has(a.key) && near.has(b.key); return html`<path class=${`edge ${on ? "on" : ""} ${b.view.grade === "good" || b.view.grade === "idle" ? "" : b.view.grade} ${near && !on ? "dim" : ""}`} d=${curve(a, b, map)} />`; })}
      ${[...map.nodes.values()].map((n) => { if (!n.view || !n.reads.length) return null;
        const on = near && near.has(n.key), waiting = Math.max(0, live.numbered - n.view.seq), seconds = age(n.view);
        const asked = live.running ? rate(samples, (s) => s.questions[n.view.name]) : null, wide = map.wide > 150;
        if (!(few ? !near || on : on) || (!waiting && seconds === null && !asked)) return null;
        const said = [waiting && wide ? `${num(waiting)} tx` : "", seconds === null ? "" : span(seconds), asked && wide ? `${asked < 10 ? asked.toFixed(1) : num(Math.round(asked))} q/s` : ""].filter(Boolean).join(", ");
        return said && html`<text class="lag" x=${n.x - 10} y=${n.y + map.tall / 2 - 8} text-anchor="end"><title>${`${plural(waiting, "transaction")} not shown yet${seconds === null ? "" : `, ${span(seconds)} behind`}${asked === null ? "" : `, ${asked.toFixed(1)} questions a second`}`}</title>${said}</text>`; })}
      ${[...map.nodes.values()].map((n) => html`<${Node} key=${n.key} node=${n} tall=${map.tall} wide=${map.wide} on=${opened === (n.source || n.view).name} dim=${near && !near.has(n.key)} over=${set} open=${() => go(link("map", (n.source || n.view).name))} />`)}
    </svg></div></section>
    ${opened && html`<${Drawer} live=${live} name=${opened} close=${() => go(link("map"))} />`}`;
}
