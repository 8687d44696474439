// The overview as it changes: one stream of events for the whole page.
import { ask, follow, useEffect, useState, setServerTime } from "./lib.js";

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

// How often a second something was counted over the last half minute: transactions, or what is picked of a sample.
export function rate(samples, pick = (sample) => sample.count) {
  if (samples.length < 2) return null;
  const [first, last] = [samples[0], samples[samples.length - 1]];
  const [from, to] = [pick(first), pick(last)];
  return last.at > first.at && Number.isFinite(from) && Number.isFinite(to) ? Math.max(0, to - from) / (last.at - first.at) : null;
}

// A sample for every second; the newest one stands for now.
function sampled(samples, live, at) {
  const count = live.totals && live.totals.counts.transactions;
  if (count === null || count === undefined) return [];
  const started = samples.length && samples[samples.length - 1].count > count; // another run
  const kept = started ? [] : samples.filter((s, i) => s.at > at - 30 && (i === 0 || i < samples.length - 1 || s.at - samples[i - 1].at >= 1));
  return [...kept, { at, count, questions: Object.fromEntries(live.views.map((v) => [v.name, v.questions])) }];
}

export function useLive() {
  const [state, set] = useState({ live: null, connected: false, trouble: null, samples: [] });
  useEffect(() => {
    const take = (how) => (data) => {
      setServerTime(data.now);
      set(({ live, samples }) => {
        const next = how === "whole" ? data : merged(live, data);
        return { live: next, connected: true, trouble: null, samples: sampled(samples, next, data.now) };
      });
    };
    const trouble = (said) => set((s) => ({ ...s, connected: true, trouble: said }));
    const away = (refused) => {
      set((s) => ({ ...s, connected: false }));
      // Why a stream is refused it does not say: ask.
      if (refused) ask("/api/overview").catch((error) => { if (error.error) set((s) => ({ ...s, trouble: error })); });
    };
    return follow("/api/events", { whole: take("whole"), patch: take("patch"), trouble }, away);
  }, []);
  return state;
}
