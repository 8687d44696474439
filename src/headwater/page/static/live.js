// The overview as it changes: one stream of events for the whole page.
import { useEffect, useState, setServerTime } from "./lib.js";

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

export function useLive() {
  const [state, set] = useState({ live: null, connected: false, samples: [] });
  useEffect(() => {
    const source = new EventSource("/api/events");
    const take = (how) => (event) => {
      const data = JSON.parse(event.data);
      setServerTime(data.now);
      set(({ live, samples }) => {
        const next = how === "whole" ? data : merged(live, data);
        const count = next.totals && next.totals.counts.transactions;
        const started = samples.length && samples[samples.length - 1].count > count;
        const kept = (started ? [] : samples).filter((s) => s.at > data.now - 30);
        return { live: next, connected: true, samples: count === null || count === undefined ? [] : [...kept, { at: data.now, count }] };
      });
    };
    source.addEventListener("whole", take("whole"));
    source.addEventListener("patch", take("patch"));
    source.onerror = () => set((s) => ({ ...s, connected: false }));
    return () => source.close();
  }, []);
  return state;
}
