// The lab: the published algorithms and the papers' figures, step by step, as they run in virtual time.
import { html, useState, useEffect, useRef, plural, useData, link, go, Failure } from "../lib.js";
import { Stage, Painted } from "./stage.js";

const NEXT = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

function Verdict({ judged, frames, to }) {
  if (!judged) return null;
  const grade = judged.level.startsWith("complete") ? "" : judged.level.startsWith("no ") ? "none" : "less";
  const first = (state) => frames.findIndex((f) => f.states > state);
  return html`<div class=${`judged ${grade}`}><p><strong>The checker says: ${judged.level}.</strong> ${judged.meaning[0].toUpperCase()}${judged.meaning.slice(1)}.</p>
    ${judged.reasons.map((r) => html`<p>Not ${r.level}: ${r.sentence}.${first(r.state) > 0 ? html` <button class="plain" onClick=${() => to(first(r.state))}>Go there</button>` : null}</p>`)}</div>`;
}

function useWidth() {
  const ref = useRef(), [width, set] = useState(720);
  useEffect(() => {
    if (!ref.current) return undefined;
    const watch = new ResizeObserver(([entry]) => set(Math.floor(entry.contentRect.width) - 2));
    watch.observe(ref.current);
    return () => watch.disconnect();
  }, [ref.current]);
  return [ref, width];
}

function Playing({ play, at, to }) {
  const last = play.frames.length - 1, frame = play.frames[at], here = useRef();
  const [running, setRunning] = useState(false), [ref, width] = useWidth();
  useEffect(() => {
    const pressed = (e) => {
      if (e.altKey || e.ctrlKey || e.metaKey || /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName)) return;
      const next = e.key === "Home" ? 0 : e.key === "End" ? last : NEXT[e.key] ? at + NEXT[e.key] : null;
      if (next === null) return;
      e.preventDefault(); setRunning(false); to(next);
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, [at, last]);
  useEffect(() => {
    if (!running) return undefined;
    if (at >= last) { setRunning(false); return undefined; }
    const timer = setTimeout(() => to(at + 1), 1100);
    return () => clearTimeout(timer);
  }, [running, at]);
  useEffect(() => {
    const list = here.current && here.current.parentElement;
    if (list) list.scrollTop = here.current.offsetTop - list.offsetTop - list.clientHeight / 2;
  }, [at]);
  const wrong = new Set((play.judgement ? play.judgement.reasons : []).map((r) => play.frames.findIndex((f) => f.states > r.state)));
  return html`<div class="play"><div ref=${ref}>
      <div class="controls"><button title="Home" aria-label="to the beginning" disabled=${at === 0} onClick=${() => to(0)}>⇤</button><button title="←" aria-label="one step back" disabled=${at === 0} onClick=${() => to(at - 1)}>←</button>
        <button class="main" aria-label="one step forward" title="→" disabled=${at === last} onClick=${() => to(at + 1)}>→</button><button title="End" aria-label="to the end" disabled=${at === last} onClick=${() => to(last)}>⇥</button>
        <button onClick=${() => { if (at === last) to(0); setRunning(!running); }}>${running ? "Pause" : "Play"}</button>
        <input type="range" min="0" max=${last} value=${at} aria-label="step" onInput=${(e) => to(Number(e.target.value))} /><span class="note n">${at} of ${last}</span></div>
      <p class="said" role="status"><span class="time">${frame.painted.length || !frame.flights ? "" : `t = ${+frame.at.toFixed(2)}`}</span>${frame.text}</p>
      ${frame.actors.length > 1 ? html`<${Stage} frames=${play.frames} at=${at} width=${width} />` : html`<${Painted} frame=${frame} />`}
      <${Verdict} judged=${play.judgement} frames=${play.frames} to=${to} /></div>
    <ol class="steps" aria-label="steps">${play.frames.map((f, i) => html`<li key=${i} ref=${i === at ? here : undefined} aria-current=${i === at ? "step" : undefined}><button class=${wrong.has(i) ? "wrong" : i && f.states > play.frames[i - 1].states ? "state" : ""} onClick=${() => to(i)}>${i}. ${f.text}</button></li>`)}</ol></div>`;
}

export function Lab({ args }) {
  const { data, error } = useData("/api/lab");
  const name = args[0] || "four-sweep";
  const played = useData(`/api/lab/${encodeURIComponent(name)}`);
  const play = played.data && played.data.name === name ? played.data : null;
  const at = play ? Math.max(0, Math.min(play.frames.length - 1, Number(args[1]) || 0)) : 0;
  const to = (step) => play && go(link("lab", name, String(Math.max(0, Math.min(play.frames.length - 1, step)))), true);
  const groups = data ? [...new Set(data.plays.map((p) => p.group))] : [];
  return html`<section><h1>${play ? play.title : "The papers, step by step"}</h1>
    <p class="lead">${play ? html`${play.algorithm}, ${play.paper}. ${play.about}` : "The published algorithms run here in virtual time."}</p>
    <div class="bar" style="margin-top:20px"><label class="pick">Play <select value=${name} onChange=${(e) => go(link("lab", e.target.value))}>${groups.map((g) => html`<optgroup label=${g}>${data.plays.filter((p) => p.group === g).map((p) => html`<option value=${p.name}>${p.group.startsWith("The same") ? p.title : `${p.paper}: ${p.title}`}</option>`)}</optgroup>`)}</select></label>
      ${data && (data.report ? html`<a href="/lab-report/report.html" target="_blank" rel="noopener">The lab's report</a>` : html`<span class="note">All experiments: <code>headwater lab run all</code></span>`)}</div>
    <${Failure} error=${error || played.error} /></section>
    ${play && html`<${Playing} key=${name} play=${play} at=${at} to=${to} />
    ${play.view && html`<p class="note mono" style="margin-top:18px">${play.view}</p>`}
    <details><summary>The idea, the steps, the invariant</summary><pre class="idea">${play.idea}</pre></details>`}
    ${!play && !played.error && html`<p class="empty" role="status">Running it …</p>`}`;
}
