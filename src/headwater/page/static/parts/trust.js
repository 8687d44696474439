// Why to believe a view: what it promises, what `verify` found, time after time, and what the checker says.
import { html, useState, num, span, when, plural, useData, useTick, useWork, serverNow, link, Failure, Dot } from "../lib.js";

const told = (v) => `${when(v.at)}, at transaction ${num(v.seq)}: ${v.ok ? `equal to its sources, ${plural(v.rows, "row")}` : v.differing ? `${plural(v.differing, "row")} differ` : v.problem}`;

const Differing = ({ verdict }) => html`<ul class="change" style="margin-top:8px">
  ${(verdict.missing || []).map((row) => html`<li class="less"><b>−</b> should be there: ${row}</li>`)}${(verdict.extra || []).map((row) => html`<li><b>+</b> should not: ${row}</li>`)}</ul>`;

function Verdict({ view }) {
  const last = view.verdicts.at(-1);
  if (!last) return html`<span class="word faint">never</span>`;
  return html`<div class=${last.ok ? "" : "word bad"}>${last.ok ? "equal to its sources" : last.differing ? `${plural(last.differing, "row")} differ` : "not equal to its sources"}</div><div class="note">${when(last.at)}, at transaction ${num(last.seq)}</div>
    ${!last.ok && html`<${Differing} verdict=${last} />`}`;
}

const DOES = { verify: "Recomputing", judge: "Judging the history of", plan: "Comparing views/ with what is maintained", apply: "Applying views/" };

function Busy({ job, stop }) {
  useTick();
  const far = job.of ? Math.min(1, job.rows / job.of) : null;
  return html`<div class="busy" role="status"><span>${DOES[job.kind]} ${job.kind === "verify" && !job.view ? "every view" : job.view} … <span class="soft n">${span(Math.max(0, serverNow() - job.began))}${job.rows ? `, ${plural(job.rows, "row")} read` : job.kind === "verify" ? ", Spark starts" : ""}</span></span>
    <progress max="1" value=${far === null ? undefined : far}></progress><button onClick=${stop}>Stop</button></div>`;
}

// States as the checker walked through them; the one that a level was lost at is marked, with what was wrong.
function Judged({ job }) {
  const { answer } = job;
  if (job.error) return html`<${Failure} error=${job} />`;
  const wrong = new Map(answer.reasons.map((r) => [r.state, r]));
  const many = answer.states.length, shift = Math.max(0, (answer.path.length || many + 1) - 1 - many);
  const wide = 26, per = 30;
  return html`<div class=${`judged ${answer.ok ? "" : "none"}`}><p><strong>${answer.view}: ${answer.level}</strong> over ${plural(answer.transactions, "transaction")}${answer.first ? ` from ${num(answer.first)}` : ""}; it promises ${answer.promised}. ${answer.meaning[0].toUpperCase()}${answer.meaning.slice(1)}.</p>
    <svg class="states" viewBox=${`0 0 ${per * wide} ${Math.ceil(many / per) * 26 + 4}`} role="img" aria-label="states that were judged">${answer.states.map((seq, i) => {
      const x = (i % per) * wide + 12, y = Math.floor(i / per) * 26 + 13, bad = wrong.has(i + 1 + shift);
      return html`<g>${i % per ? html`<line x1=${x - wide + 7} x2=${x - 7} y1=${y} y2=${y} />` : null}<circle class=${bad ? "bad" : "good"} cx=${x} cy=${y} r="6"><title>transaction ${seq}</title></circle></g>`;
    })}</svg>
    ${answer.reasons.map((r) => html`<p>Not ${r.level}: ${r.sentence}.</p><${Differing} verdict=${{ missing: r.missing, extra: r.extra }} />`)}</div>`;
}

export function Trust({ live }) {
  const [work, start, stop] = useWork();
  const [refused, setRefused] = useState(null);
  const { data, error } = useData("/api/trust", `${live.cut ? Math.floor(live.cut.number / 10) : 0} ${work.done.length ? work.done[0].number : 0}`);
  const views = data ? data.views : [];
  const checked = views.filter((v) => v.verdicts.length), wrong = checked.filter((v) => !v.verdicts.at(-1).ok);
  const title = !views.length ? "Trust" : wrong.length ? `${plural(wrong.length, "view")} did not equal ${wrong.length === 1 ? "its" : "their"} sources` : checked.length ? `${checked.length === views.length ? "Every view" : `${num(checked.length)} of ${plural(views.length, "view")}`} equalled its sources` : "Nothing has been verified yet";
  const begin = (wanted) => start(wanted).then(setRefused);
  const failed = work.done.find((job) => job.kind === "verify"), judged = work.done.find((job) => job.kind === "judge");
  return html`<section><h1>${title}</h1>
    <p class="lead"><code>headwater verify</code> recomputes views from their sources as of exactly one cut and compares them row by row, while everything runs on. What it found is kept here. The checker looks at the states themselves: whether each was one that the sources had, in order.</p>
    ${data && !views.length && html`<p class="empty">There is no view to believe yet: none has been loaded.</p>`}
    ${views.length > 0 && html`<div class="bar" style="margin-top:20px"><button class="main" disabled=${Boolean(work.now)} onClick=${() => begin({ do: "verify" })}>Verify every view</button></div>`}
    ${work.now && html`<${Busy} job=${work.now} stop=${stop} />`}
    <${Failure} error=${error || refused || (failed && failed.error ? failed : null)} />
    ${judged && html`<${Judged} job=${judged} />`}</section>
    ${views.length > 0 && html`<section><div class="scroll"><table><thead><tr><th>view</th><th>promises</th><th>last verified</th><th class="wide">history</th><th></th></tr></thead>
      <tbody>${views.map((v) => html`<tr key=${v.name}><td><a class="name" href=${link("map", v.name)}><${Dot} grade=${v.verdicts.length ? (v.verdicts.at(-1).ok ? "good" : "bad") : "idle"} />${v.name}</a></td>
        <td><div>${v.level}${v.every > 1 ? `, every ${num(v.every)}` : ""}</div><div class="note wide">${v.promise}${v.gaps.length ? `; no states between ${v.gaps.map(([a, b]) => `${num(a)} and ${num(b)}`).join(", ")}` : ""}</div></td>
        <td><${Verdict} view=${v} /></td>
        <td class="wide"><span class="verdicts">${v.verdicts.map((x) => html`<i class=${x.ok ? "" : "bad"} title=${told(x)}></i>`)}</span></td>
        <td class="number"><span class="bar pair"><button aria-label=${`verify ${v.name}`} disabled=${Boolean(work.now)} onClick=${() => begin({ do: "verify", view: v.name })}>Verify</button><button aria-label=${`judge the history of ${v.name}`} disabled=${Boolean(work.now)} onClick=${() => begin({ do: "judge", view: v.name })}>Judge</button></span></td></tr>`)}</tbody></table></div></section>`}
    ${work.may_apply && html`<${Applying} work=${work} begin=${begin} />`}`;
}

// What the command asks confirmation for: it is shown, and done when it was confirmed.
function Applying({ work, begin }) {
  const last = work.done.find((job) => job.kind === "plan" || job.kind === "apply");
  const changes = last && last.kind === "plan" && last.answer.changes ? last.answer.changes : [];
  return html`<section><div class="head"><h2>What views/ says</h2><button disabled=${Boolean(work.now)} onClick=${() => begin({ do: "plan" })}>Compare with what is maintained</button></div>
    ${last && last.error && html`<${Failure} error=${last} />`}
    ${last && !last.error && !changes.length && html`<p class="soft">${last.kind === "apply" && last.answer.applied ? "Done: it is shown in one step." : "Nothing to do: the maintained views are those of views/."}</p>`}
    ${changes.length > 0 && html`<div class="scroll"><table><thead><tr><th>view</th><th></th><th>why</th></tr></thead><tbody>${changes.map((c) => html`<tr><td>${c.view}</td><td class=${c.action === "drop" ? "word bad" : ""}>${c.action}</td><td class="soft">${c.why}</td></tr>`)}</tbody></table></div>
      ${Object.entries(last.answer.capture || {}).map(([source, lines]) => lines.map((line) => html`<p class="note">at ${source}: ${line}</p>`))}${(last.answer.warnings || []).map((w) => html`<p class="note">${w}</p>`)}
      <p class="bar" style="margin-top:14px"><button class="main" disabled=${Boolean(work.now)} onClick=${() => begin({ do: "apply", confirmed: changes })}>Do it</button><span class="note">Views are loaded beside the others and appear in one step.</span></p>`}</section>`;
}
