// The overview as it changes: one stream of events for the whole page.
import { ask, useEffect, useState, setServerTime } from "./lib.js";

function merged(known, patch) {
  const next = { ...known, ...patch };
  for (const key of ["views", "sources"]) {
    if (patch[`all_${key}`]) { next[key] = patch[`all_${key}`]; delete next[`all_${key}`]; continue; }
    if (patch[key]) {
      const changed = new Map(patch[key].map((one) => [one.name, one]));
      next[key] = known[key].map((one) => changed.get(one.name) || one);
    }
  }
  return next;
}

// Transactions per second over the last half minute, from what the run counts.
export function rate(samples) {
  if (samples.length < 2) return null;
  const [first, last] = [samples[0], samples[samples.length - 1]];
  return last.at > first.at ? (last.count - first.count) / (last.at - first.at) : null;
}

const AGAIN = 3000;

export function useLive() {
  const [state, set] = useState({ live: null, connected: false, trouble: null, samples: [] });
  useEffect(() => {
    let source = null, timer = null;
    const take = (how) => (event) => {
      const data = JSON.parse(event.data);
      setServerTime(data.now);
      set(({ live, samples }) => {
        const next = how === "whole" ? data : merged(live, data);
        const count = next.totals && next.totals.counts.transactions;
        const started = samples.length && samples[samples.length - 1].count > count;
        const kept = (started ? [] : samples).filter((s) => s.at > data.now - 30);
        return { live: next, connected: true, trouble: null, samples: count === null || count === undefined ? [] : [...kept, { at: data.now, count }] };
      });
    };
    const open = () => {
      source = new EventSource("/api/events");
      source.addEventListener("whole", take("whole"));
      source.addEventListener("patch", take("patch"));
      source.addEventListener("trouble", (event) => set((s) => ({ ...s, connected: true, trouble: JSON.parse(event.data) })));
      source.onerror = () => {
        set((s) => ({ ...s, connected: false }));
        if (source.readyState !== EventSource.CLOSED) return; // the browser tries again by itself
        // It was refused, which a stream does not say why: ask, tell, and try again all the same.
        ask("/api/overview").catch((error) => { if (error.error) set((s) => ({ ...s, trouble: error })); });
        timer = setTimeout(open, AGAIN);
      };
    };
    open();
    return () => { clearTimeout(timer); source.close(); };
  }, []);
  return state;
}
