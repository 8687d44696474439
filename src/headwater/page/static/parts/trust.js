// Why to believe a view: what it promises, and what `verify` found, time after time.
import { html, num, when, plural, useData, link, Failure, Dot } from "../lib.js";

const told = (v) => `${when(v.at)}, at transaction ${num(v.seq)}: ${v.ok ? `equal to its sources, ${plural(v.rows, "row")}` : v.differing ? `${plural(v.differing, "row")} differ` : v.problem}`;

function Verdict({ view }) {
  const last = view.verdicts.at(-1);
  if (!last) return html`<span class="faint">never verified</span>`;
  return html`<div class=${last.ok ? "" : "word bad"}>${last.ok ? "equal to its sources" : last.differing ? `${plural(last.differing, "row")} differ` : "not equal to its sources"}</div><div class="note">${when(last.at)}, at transaction ${num(last.seq)}</div>`;
}

export function Trust({ live }) {
  const { data, error } = useData("/api/trust", live.cut ? Math.floor(live.cut.number / 10) : 0);
  const views = data ? data.views : [];
  const checked = views.filter((v) => v.verdicts.length), wrong = checked.filter((v) => !v.verdicts.at(-1).ok);
  const title = !views.length ? "Trust" : wrong.length ? `${plural(wrong.length, "view")} did not equal ${wrong.length === 1 ? "its" : "their"} sources` : checked.length ? `${checked.length === views.length ? "Every view" : `${num(checked.length)} of ${plural(views.length, "view")}`} equalled its sources` : "Nothing has been verified yet";
  return html`<section><h1>${title}</h1>
    <p class="lead"><code>headwater verify</code> recomputes views from their sources as of exactly one cut and compares them row by row, while everything runs on. What it found is kept here.</p><${Failure} error=${error} /></section>
    ${views.length > 0 && html`<section><div class="scroll"><table><thead><tr><th>view</th><th>promises</th><th>last verified</th><th class="wide">history</th></tr></thead>
      <tbody>${views.map((v) => html`<tr key=${v.name}><td><a class="name" href=${link("map", v.name)}><${Dot} grade=${v.verdicts.length ? (v.verdicts.at(-1).ok ? "good" : "bad") : "idle"} />${v.name}</a></td>
        <td><div>${v.level}${v.every > 1 ? `, every ${num(v.every)}` : ""}</div><div class="note wide">${v.promise}${v.gaps.length ? `; no states between ${v.gaps.map(([a, b]) => `${num(a)} and ${num(b)}`).join(", ")}` : ""}</div></td>
        <td><${Verdict} view=${v} /></td>
        <td class="wide"><span class="verdicts">${v.verdicts.map((x) => html`<i class=${x.ok ? "" : "bad"} title=${told(x)}></i>`)}</span></td></tr>`)}</tbody></table></div></section>`}`;
}
