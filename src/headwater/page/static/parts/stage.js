// One frame of a play, drawn: the warehouse above, the sources below, what is under way between them.
import { html } from "../lib.js";

const CHAR = 7.25, ROW = 18, CHIP = 22, PAD = 12;
const short = (text, chars) => (text.length > chars ? `${text.slice(0, Math.max(1, chars - 1))}…` : text);
const isUp = (f) => f.receiver === "warehouse";

// Chips of a queue, in as many lines as they need: [x, y, width, item] and the height.
function chips(items, wide) {
  const placed = []; let x = 0, y = 0;
  for (const item of items) {
    const w = Math.min(wide, Math.max(26, item.text.length * CHAR + 14));
    if (x && x + w > wide) { x = 0; y += CHIP + 4; }
    placed.push([x, y, w, item]); x += w + 6;
  }
  return [placed, items.length ? y + CHIP : CHIP];
}

function Queue({ queue, x, y, wide, before }) {
  const [placed] = chips(queue.items, wide);
  const known = new Set(before ? before.items.map((i) => `${i.text}${i.done}`) : []);
  return html`<g transform=${`translate(${x},${y})`}><text class="name" y="10">${queue.name}${queue.items.length ? "" : ": none"}</text>
    ${placed.map(([cx, cy, w, item]) => html`<g transform=${`translate(${cx},${cy + 15})`}><rect class=${`chip ${item.done ? "done" : ""} ${known.has(`${item.text}${item.done}`) ? "" : "fresh"}`} width=${w} height=${CHIP - 3} rx="5" /><text x="7" y="13.5">${short(item.text, Math.floor((w - 12) / CHAR))}</text></g>`)}</g>`;
}
const queueHeight = (queue, wide) => 15 + (queue.items.length ? chips(queue.items, wide)[1] : 2) + 8;

function Table({ table, x, y, wide, before }) {
  const known = before ? before.rows : [];
  return html`<g transform=${`translate(${x},${y})`}><text class="name" y="10">${short(`${table.name}(${table.columns.join(", ")})`, Math.floor(wide / 6))}</text>
    ${table.rows.map((row, i) => html`<g transform=${`translate(0,${15 + i * ROW})`}><rect class=${`row ${before && !known.includes(row) ? "fresh" : ""}`} x="-4" width=${wide} height=${ROW - 1} rx="4" /><text y="13" class=${row.includes("[-") ? "minus" : ""}>${short(row, Math.floor(wide / CHAR))}</text></g>`)}
    ${table.rows.length ? null : html`<text class="name" y="27">no rows</text>`}</g>`;
}
const tableHeight = (table) => 15 + Math.max(1, table.rows.length) * ROW + 10;

// How high everything must be for the whole play, so that nothing jumps.
function measure(frames, column, total) {
  let top = 0, band = 0, below = 0, lanes = 0;
  for (const frame of frames) {
    const [warehouse, ...sources] = frame.actors;
    const left = warehouse.queues.reduce((h, q) => h + queueHeight(q, total * 0.55), 0);
    const right = warehouse.tables.reduce((h, t) => h + tableHeight(t), 0);
    top = Math.max(top, 34 + Math.max(left, right));
    for (const s of sources) {
      below = Math.max(below, 34 + s.tables.reduce((h, t) => h + tableHeight(t), 0) + s.queues.reduce((h, q) => h + queueHeight(q, column - 2 * PAD - 12), 0));
      band = Math.max(band, frame.flights.filter((f) => f.sender === s.name || f.receiver === s.name).filter((f) => f.sender === "warehouse" || isUp(f)).length);
    }
    lanes = Math.max(lanes, frame.flights.filter((f) => f.sender !== "warehouse" && !isUp(f)).length);
  }
  return { top, band: 26 + band * 30, below, lanes: lanes ? 20 + lanes * 30 : 0 };
}

export function Stage({ frames, at, width }) {
  const frame = frames[at], before = frames[at - 1];
  const [warehouse, ...sources] = frame.actors;
  const column = Math.max(176, Math.min(330, Math.floor(width / Math.max(1, sources.length))));
  const total = Math.max(column * sources.length, Math.min(width, 420));
  const { top, band, below, lanes } = measure(frames, column, total);
  const was = (name) => before && before.actors.find((a) => a.name === name);
  const center = (i) => i * column + column / 2;
  const find = (list, name) => list && list.find((one) => one.name === name);
  let y = 34;
  const queues = warehouse.queues.map((q) => { const here = y; y += queueHeight(q, total * 0.55); return html`<${Queue} queue=${q} x=${PAD + 4} y=${here} wide=${total * 0.55} before=${find(was("warehouse") && was("warehouse").queues, q.name)} />`; });
  y = 34;
  const views = warehouse.tables.map((t) => { const here = y; y += tableHeight(t); return html`<${Table} table=${t} x=${total * 0.66} y=${here} wide=${total * 0.3} before=${find(was("warehouse") && was("warehouse").tables, t.name)} />`; });
  const under = top + band;
  const between = frame.flights.filter((f) => f.sender !== "warehouse" && !isUp(f));
  return html`<div class="stage"><svg width=${total} height=${under + below + lanes + PAD} role="img" aria-label=${frame.text}>
    <rect class="box warehouse" x="4" y="4" width=${total - 8} height=${top - 4} rx="10" /><text class="title" x=${PAD + 4} y="24">warehouse</text><text class="name" x=${total * 0.66} y="24">state ${frame.states - 1}</text>
    ${queues}${views}
    ${sources.map((s, i) => {
      const mine = frame.flights.filter((f) => (f.sender === s.name && isUp(f)) || (f.receiver === s.name && f.sender === "warehouse"));
      let at = under + 30; const x = i * column + PAD + 4, wide = column - 2 * PAD - 12;
      return html`<g><line class="wire" x1=${center(i)} x2=${center(i)} y1=${top} y2=${under} />
        <rect class="box" x=${i * column + 6} y=${under} width=${column - 12} height=${below} rx="10" /><text class="title" x=${x} y=${under + 20}>${s.name}</text>
        ${s.tables.map((t) => { const here = at; at += tableHeight(t); return html`<${Table} table=${t} x=${x} y=${here} wide=${wide} before=${find(was(s.name) && was(s.name).tables, t.name)} />`; })}
        ${s.queues.map((q) => { const here = at; at += queueHeight(q, wide); return html`<${Queue} queue=${q} x=${x} y=${here} wide=${wide} before=${find(was(s.name) && was(s.name).queues, q.name)} />`; })}
        ${mine.map((f, n) => html`<${Message} flight=${f} x=${i * column + 10} y=${top + 14 + n * 30} wide=${column - 20} way=${isUp(f) ? "↑" : "↓"} />`)}</g>`;
    })}
    ${between.map((f, n) => {
      const from = center(sources.findIndex((s) => s.name === f.sender)), to = center(sources.findIndex((s) => s.name === f.receiver)), y = under + below + 22 + n * 30;
      const mid = (from + to) / 2, tip = to > from ? -7 : 7;
      return html`<g><line class="arrow" x1=${from} x2=${to + tip} y1=${y} y2=${y} /><path class="tip" d=${`M${to} ${y}l${tip} -5v10z`} /><${Message} flight=${f} x=${mid - column * 0.42} y=${y - 12} wide=${column * 0.84} way=${to > from ? "→" : "←"} /></g>`;
    })}
  </svg></div>`;
}

function Message({ flight, x, y, wide, way }) {
  const text = short(`${way} ${flight.kind}${flight.text ? ` ${flight.text}` : ""}`, Math.floor((wide - 14) / CHAR));
  return html`<g transform=${`translate(${x},${y})`}><title>${flight.kind} of ${flight.sender} to ${flight.receiver}${flight.text ? `: ${flight.text}` : ""}</title><rect class=${`message ${flight.kind}`} width=${wide} height="24" rx="12" /><text x="10" y="16">${text}</text></g>`;
}

// The view update table of a frame, as MVC draws it.
export const Painted = ({ frame }) => {
  const views = frame.painted.length ? frame.painted[0].cells.map((c) => c.view) : [];
  const done = frame.actors[0].queues[0].items;
  return html`<div class="painting" role="region" aria-label="view update table"><table>
      <thead><tr><th>row</th>${views.map((v) => html`<th>${v}</th>`)}<th>action lists that are here</th></tr></thead>
      <tbody>${frame.painted.map((row) => html`<tr><td class="mono">U${row.number}</td>${row.cells.map((c) => html`<td class="paint" title=${c.colour}><span class=${`paint-mark ${c.colour}`}></span>${c.state ? html`<small class="faint n"> ${c.state}</small>` : null}</td>`)}<td class="mono soft">${row.lists.join(", ")}</td></tr>`)}
      ${frame.painted.length ? null : html`<tr><td class="faint">the table is empty</td></tr>`}</tbody></table></div>
    <p class="soft" style="margin-top:14px">Warehouse transactions so far: ${done.length ? done.map((d) => d.text).join("; ") : "none"}</p>
    <div class="legend"><span><i class="paint-mark white"></i>white: its action list is not here</span><span><i class="paint-mark red"></i>red: here, waits</span><span><i class="paint-mark gray"></i>gray: applied</span><span><i class="paint-mark black"></i>black: no concern</span></div>`;
};
