// The view update table, live: rows of transactions, a column for every view, and who waits for whom.
import { html, num, span, plural, useTick, useData, serverNow, Failure } from "../lib.js";

const MEANS = { white: "waits for the view's change", red: "has it, waits for others", black: "no concern of the view" };
const MANY = 8;

function Group({ group, number }) {
  const turn = group.views.length > MANY ? "turn" : "";
  return html`<section><div class="head"><h2>Group ${number}: ${group.sources.slice(0, 6).join(", ")}${group.sources.length > 6 ? ` and ${num(group.sources.length - 6)} more` : ""}</h2><span class="note">${group.algorithm}; ${plural(group.waiting, "row")} waiting${group.committing ? `, ${group.committing} being committed` : ""}</span></div>
    ${!group.rows.length ? html`<p class="empty">Nothing waits: ${group.views.length === 1 ? "its view shows" : `its ${num(group.views.length)} views show`} the same transactions.</p>` : html`
    <div class="painting" tabindex="0" role="region" aria-label=${`view update table of group ${number}`}><table>
      <thead><tr><th class="number">transactions</th>${group.views.map((v) => html`<th class=${turn} title=${v}>${v}</th>`)}<th class="number">waits</th><th>about</th></tr></thead>
      <tbody>${group.rows.map((row) => html`<tr>
        <td class="number">${row.first === row.last ? num(row.first) : `${num(row.first)} – ${num(row.last)}`}</td>
        ${row.entries.map((e, i) => html`<td class="paint" title=${`${group.views[i]}: ${MEANS[e.color] || e.color}`}><span class=${`paint-mark ${e.color}`}></span>${e.state > row.last ? html`<small class="faint n"> ${num(e.state)}</small>` : null}</td>`)}
        <td class="number soft">${span(Math.max(0, serverNow() - row.since))}</td><td class="soft">${row.about.join(", ")}</td></tr>`)}</tbody>
    </table></div>`}
    ${group.waiting > group.rows.length && html`<p class="note" style="margin-top:8px">and ${plural(group.waiting - group.rows.length, "more row")}</p>`}</section>`;
}

export function Painting({ live }) {
  useTick(500);
  const { data, error } = useData("/api/painting", Math.floor(Date.now() / 500));
  return html`<section><h1>Who waits for whom</h1>
    <p class="lead">A reader never sees one view with a transaction that another still lacks. This table is how: a row becomes visible when every view that it concerns has painted it red.</p>
    <div class="legend">${Object.entries(MEANS).map(([color, means]) => html`<span><i class=${`paint-mark ${color}`}></i>${means}</span>`)}<span><i class="paint-mark red"></i><small class="n">7</small> one change with transaction 7</span></div>
    <${Failure} error=${error} /></section>
    ${data && !data.running ? html`<p class="empty">Nothing runs, so nothing waits. ${live.cut ? `The last cut shows every view up to transaction ${num(data.seq)}.` : "Nothing is maintained yet."}</p>`
      : data && data.groups.map((g, i) => html`<${Group} key=${i} group=${g} number=${i + 1} />`)}`;
}
