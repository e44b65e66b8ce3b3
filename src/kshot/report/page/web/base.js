// What every other script builds on: the namespace, links to states, keys, numbers. No script contains another's code.
"use strict";

const kshot = { ...htmPreact };

// ---- every state is a link: #/run/KEY/samples/17?verdict=wrong&q=mars ----

/** Read the state from the address: {path: ["run", "KEY", …], query: {verdict: "wrong"}}. */
kshot.route = () => {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const decoded = path.split("/").filter(Boolean).map(decodeURIComponent);
  return { path: location.hash.startsWith("#/") ? decoded : [], query: Object.fromEntries(new URLSearchParams(query)) };
};

/** Write a state as a link; empty values of the query are left out. */
kshot.link = (path, query = {}) => {
  const given = Object.entries(query).filter(([, value]) => value !== "" && value !== undefined && value !== null);
  const written = new URLSearchParams(given).toString();
  return "#/" + path.map(encodeURIComponent).join("/") + (written ? "?" + written : "");
};

/** Go to a state; `replace`: without a new entry in the browser's history, as while somebody types. */
kshot.go = (path, query, { replace = false } = {}) => {
  const link = kshot.link(path, query);
  if (link === location.hash) return;
  if (replace) {
    history.replaceState(history.state, "", link);
    dispatchEvent(new HashChangeEvent("hashchange"));
  } else {
    location.hash = link;
  }
};

/** A hook: the state in the address, followed as it changes. */
kshot.useRoute = () => {
  const [route, setRoute] = kshot.useState(kshot.route);
  kshot.useEffect(() => {
    const follow = () => setRoute(kshot.route());
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  return route;
};

// ---- keys ----

/** A hook: what single keys do while a component is shown, {j: () => …}; the last one that is shown comes first. */
kshot.useKeys = (keys) => {
  const current = kshot.useRef(keys);
  current.current = keys;
  kshot.useEffect(() => {
    kshotKeys.push(current);
    return () => kshotKeys.splice(kshotKeys.indexOf(current), 1);
  }, []);
};

const kshotKeys = [];

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const typing = event.target.closest("input:not([type=checkbox]), textarea, select, [contenteditable]");
  if (typing && event.key !== "Escape") return;
  for (const { current } of [...kshotKeys].reverse()) {
    const act = current[event.key];
    if (act && act(event) !== false) {
      event.preventDefault();
      return;
    }
  }
});

// ---- values ----

/** A hook: load something again whenever `inputs` change: {value, error, loading}; the last value stays meanwhile. */
kshot.useLoaded = (load, inputs) => {
  const [state, setState] = kshot.useState({ loading: true });
  kshot.useEffect(() => {
    let wanted = true;
    setState((last) => ({ ...last, loading: true }));
    load().then(
      (value) => wanted && setState({ value, loading: false }),
      (error) => wanted && setState((last) => ({ ...last, error, loading: false })),
    );
    return () => (wanted = false);
  }, inputs);
  return state;
};

/** A hook: load something again and again, {value, error}. `pause(value, error)` says after how many milliseconds, or 0: no more.
 * It rests while nobody looks. What has not changed stays the same object, so nothing is drawn anew. Who comes back
 * finds the last value under its `name` at once, and the page as long as it was. */
kshot.usePolled = (name, load, pause) => {
  const [state, setState] = kshot.useState({ value: kshotSeen.get(name) });
  kshot.useEffect(() => {
    let timer, busy, ended, text;
    const look = async () => {
      clearTimeout(timer);
      if (busy || (document.hidden && text)) return;
      busy = true;
      const next = await load().then((value) => ({ value }), (error) => ({ error }));
      busy = false;
      if (ended) return;
      const now = JSON.stringify(next.value) ?? String(next.error);
      if (now !== text) setState((last) => ({ value: last.value, ...next }));
      text = now;
      if (next.value) kshotSeen.set(name, next.value);
      const wait = pause(next.value, next.error);
      if (wait) timer = setTimeout(look, wait);
    };
    look();
    document.addEventListener("visibilitychange", look);
    return () => {
      ended = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", look);
    };
  }, [name]);
  return state;
};

const kshotSeen = new Map();

/** Write a number as tables do; "–" where there is none. */
kshot.number = (value, digits = 2) =>
  value === null || value === undefined ? "–" : value.toLocaleString("en-US", { maximumFractionDigits: digits, minimumFractionDigits: digits });

/** Write a figure with its interval as `kshot runs` does, [value, interval]: shares with three digits, others with one. */
kshot.figure = (value, ci95) => {
  const digits = Math.max(...[value, ...(ci95 || [])].map(Math.abs)) > 1 ? 1 : 3;
  return [kshot.number(value, digits), ci95 ? ci95.map((end) => kshot.number(end, digits)).join("–") : ""];
};

/** Write a count: 100,000. */
kshot.count = (value) => (value ?? 0).toLocaleString("en-US");

/** Write a time in one unit: 90 min, 2 h. */
kshot.duration = (seconds) => {
  if (seconds === null || seconds === undefined) return "";
  const [size, unit] = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]].find(([size]) => seconds >= 2 * size || size === 1);
  return kshot.number(seconds / size, 0) + " " + unit;
};

/** Write how long ago a moment was. */
kshot.ago = (moment) => {
  const seconds = moment ? (Date.now() - new Date(moment)) / 1000 : null;
  return seconds === null ? "" : seconds < 10 ? "now" : kshot.duration(seconds) + " ago";
};

/** Write a moment in full, in the reader's time zone. */
kshot.moment = (moment) => (moment ? new Date(moment).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" }) : "");

/** Write a cost: whole cents from ten cents on, and below as many digits as tell something. */
kshot.dollars = (usd) =>
  usd === null || usd === undefined ? "" : usd >= 0.1 || usd === 0 ? "$" + kshot.number(usd) : usd >= 1e-4 ? "$" + Number(usd.toPrecision(2)) : "<$0.0001";

/** Signs and words of the verdicts: who does not see the colour sees the others. */
kshot.VERDICTS = {
  right: { sign: "✓", word: "right" },
  partly: { sign: "~", word: "partly right" },
  wrong: { sign: "✗", word: "wrong" },
  failed: { sign: "!", word: "failed" },
  unrated: { sign: "·", word: "not rated" },
};

// ---- small parts of pages ----

/** A sign with its word: what became of a sample. */
kshot.Verdict = ({ verdict, short }) => {
  const { sign, word } = kshot.VERDICTS[verdict] || kshot.VERDICTS.unrated;
  return kshot.html`<span class="verdict ${verdict}" title=${word}><span aria-hidden="true">${sign}</span> <span class=${short ? "hidden" : ""}>${word}</span></span>`;
};

/** A figure on the scale of its metric: its interval is a band. The numbers stand beside it, so nobody reads it aloud. */
kshot.Interval = ({ value, ci95, bounds }) => {
  const [low, high] = bounds || [];
  if (![value, low, high].every(Number.isFinite)) return null;
  const at = (x) => (94 * (Math.min(Math.max(x, low), high) - low)) / (high - low);
  const [from, to] = (ci95 || [value, value]).map(at);
  return kshot.html`<svg class="interval" viewBox="0 0 96 12" aria-hidden="true">
    <rect class="scale" y="5" width="96" height="2" rx="1" />
    <rect class="band" x=${from} y="2" width=${to - from + 2} height="8" rx="2" />
    <rect class="value" x=${at(value)} width="2.5" height="12" rx="1" />
  </svg>`;
};

/** What went wrong, in the words of who found it. */
kshot.Failure = ({ error }) =>
  error
    ? kshot.html`<div class="notice failed" role="alert"><p><b>${error.message || String(error)}</b> ${error.where}</p>${error.hint && kshot.html`<p>${error.hint}</p>`}</div>`
    : null;

// ---- light or dark: as the system has it, until somebody says otherwise ----

const kshotStored = (name, value) => {
  try {
    return value === undefined ? localStorage.getItem(name) : localStorage.setItem(name, value);
  } catch {
    return null; // pages from disk may have no storage
  }
};
document.documentElement.dataset.theme = kshotStored("kshot-theme") || "system";

/** A button that goes from system to light to dark. */
kshot.ThemeButton = () => {
  const [theme, setTheme] = kshot.useState(document.documentElement.dataset.theme);
  const next = { system: "light", light: "dark", dark: "system" }[theme] || "system";
  const choose = () => {
    kshotStored("kshot-theme", next);
    document.documentElement.dataset.theme = next;
    setTheme(next);
  };
  return kshot.html`<button class="button quiet" onClick=${choose} aria-label="Theme: ${theme}" title="Theme: ${theme}. Press for ${next}.">
    <span aria-hidden="true">${{ light: "☀", dark: "☾" }[theme] || "◐"}</span>
  </button>`;
};
