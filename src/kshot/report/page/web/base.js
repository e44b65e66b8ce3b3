// What every other script builds on: the namespace, links to states, keys, numbers. No script contains another's code.
"use strict";

const kshot = { ...htmPreact };

{
  const { html, useState, useEffect, useRef } = kshot;

  /** Do something at each event, until the function that comes back is called: fit for a hook. */
  const listen = (kshot.listen = (type, act, target = window) => {
    target.addEventListener(type, act);
    return () => target.removeEventListener(type, act);
  });

  const absent = (value) => value === null || value === undefined;

  // ---- every state is a link: #/run/KEY/samples/17?verdict=wrong&q=mars ----

  const decoded = (part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part; // somebody wrote "%" by hand: there is no such page, and the page says so
    }
  };

  /** Read the state from the address: {path: ["run", "KEY", …], query: {verdict: "wrong"}}. */
  kshot.route = () => {
    const [path, query] = (location.hash.startsWith("#/") ? location.hash.slice(2) : "").split("?");
    return { path: path.split("/").filter(Boolean).map(decoded), query: Object.fromEntries(new URLSearchParams(query)) };
  };

  /** Write a state as a link; empty values of the query are left out. */
  kshot.link = (path, query = {}) => {
    const given = Object.entries(query).filter(([, value]) => value !== "" && !absent(value));
    const written = new URLSearchParams(given).toString();
    return "#/" + path.map(encodeURIComponent).join("/") + (written && "?" + written);
  };

  /** Go to a state; `replace`: without a new entry in the browser's history, as while somebody types. */
  kshot.go = (path, query, { replace = false } = {}) => {
    const link = kshot.link(path, query);
    if (link === location.hash) return;
    if (!replace) return void (location.hash = link);
    history.replaceState(history.state, "", link);
    dispatchEvent(new HashChangeEvent("hashchange"));
  };

  /** A hook: the state in the address, followed as it changes. */
  kshot.useRoute = () => {
    const [route, setRoute] = useState(kshot.route);
    useEffect(() => listen("hashchange", () => setRoute(kshot.route())), []);
    return route;
  };

  // ---- keys ----

  const keysOfAll = [];

  /** A hook: what single keys do while a component is shown, {j: () => …}; the last one that is shown comes first. */
  kshot.useKeys = (keys) => {
    const current = useRef();
    current.current = keys;
    useEffect(() => {
      keysOfAll.push(current);
      return () => keysOfAll.splice(keysOfAll.indexOf(current), 1);
    }, []);
  };

  listen("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const typing = event.target.closest("input:not([type=checkbox]), textarea, select, [contenteditable]");
    if (typing && event.key !== "Escape") return;
    const acts = ({ current }) => current[event.key] && current[event.key](event) !== false;
    if ([...keysOfAll].reverse().some(acts)) event.preventDefault();
  });

  // ---- values that are loaded ----

  /** A hook: load something again whenever `inputs` change: {value, error}; the last value stays meanwhile. */
  kshot.useLoaded = (load, inputs) => {
    const [state, setState] = useState({});
    useEffect(() => {
      let wanted = true;
      load().then(
        (value) => wanted && setState({ value }),
        (error) => wanted && setState(({ value }) => ({ value, error })),
      );
      return () => (wanted = false);
    }, inputs);
    return state;
  };

  const seen = new Map();
  const settled = {};

  /** A hook: load something again and again, {value, error}; `pause(value, error)`: after how many milliseconds, or 0: no more.
   * It rests while nobody looks, and draws nothing anew that has not changed. A reader who comes back sees the last value of
   * that name at once, and the page as long as it was; nobody is asked if it is the last one and younger than `fresh`. */
  kshot.usePolled = (name, load, pause, fresh = 0) => {
    const [state, setState] = useState({ value: seen.get(name) });
    useEffect(() => {
      let timer, busy, ended, text;
      const look = async () => {
        if (busy || (document.hidden && text)) return;
        clearTimeout(timer);
        busy = true;
        const { value, error } = await load().then((value) => ({ value }), (error) => ({ error }));
        busy = false;
        if (ended) return;
        if (value) seen.set(name, value);
        const now = JSON.stringify(value) ?? String(error);
        if (now !== text) setState({ value: seen.get(name), error });
        text = now;
        const wait = pause(value, error);
        if (wait) timer = setTimeout(look, wait);
        else if (value) settled[name] = Date.now();
      };
      if (Date.now() - settled[name] < fresh) setState({ value: seen.get(name) });
      else look();
      const stopListening = listen("visibilitychange", look, document);
      return () => {
        ended = true;
        clearTimeout(timer);
        stopListening();
      };
    }, [name]);
    return state;
  };

  /** A hook: the names and counts by which the samples of a run can be filtered. Pages that follow each other ask once. */
  kshot.useFacets = (runKey, metric = "") =>
    kshot.usePolled(`facets ${runKey} ${metric}`, () => kshot.source.facets(runKey, metric), (found) => (found?.state === "indexing" ? 400 : 0), 10000);

  // ---- numbers and times ----

  /** Write a number as tables do; "–" where there is none. */
  kshot.number = (value, digits = 2) =>
    absent(value) ? "–" : value.toLocaleString("en", { maximumFractionDigits: digits, minimumFractionDigits: digits });

  /** Write a count: 100,000. */
  kshot.count = (value) => (value ?? 0).toLocaleString("en");

  /** Write a figure with its mark, and its interval, as `kshot runs` does: shares have three digits, others one. */
  kshot.figure = ({ value, ci95, mark }) => {
    const all = [value, ...(ci95 || [])];
    return all.map((each, at) => kshot.number(each, Math.max(...all.map(Math.abs)) > 1 ? 1 : 3) + (at ? "" : mark || ""));
  };

  /** Write a time in one unit: 90 min, 2 h. */
  kshot.duration = (seconds) => {
    const [size, unit] = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]].find(([size]) => seconds >= 2 * size || size === 1);
    return absent(seconds) ? "" : `${kshot.number(seconds / size, 0)} ${unit}`;
  };

  /** Write a cost: whole cents from ten cents on, and below as many digits as tell something. */
  kshot.dollars = (usd) => (absent(usd) ? "" : "$" + (usd >= 0.1 || !usd ? kshot.number(usd) : Number(usd.toPrecision(2))));

  /** When something was, and how long ago; `exact`: the other one is in the title. */
  kshot.Moment = ({ at, exact }) => {
    if (!at) return null;
    const when = new Date(at).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
    const ago = kshot.duration((Date.now() - new Date(at)) / 1000) + " ago";
    return html`<time datetime=${at} title=${exact ? ago : when}>${exact ? when : ago}</time>`;
  };

  // ---- small parts of pages ----

  /** Signs and words of the verdicts: who does not see the colour sees the others. */
  kshot.VERDICTS = {
    right: { sign: "✓", word: "right" },
    partly: { sign: "~", word: "partly right" },
    wrong: { sign: "✗", word: "wrong" },
    failed: { sign: "!", word: "failed" },
    unrated: { sign: "·", word: "not rated" },
  };

  /** What became of a sample; `short`: the word is only read aloud. */
  kshot.Verdict = ({ verdict, short }) => {
    const { sign, word } = kshot.VERDICTS[verdict];
    return html`<span class="verdict ${verdict}" title=${word}>
      <span aria-hidden="true">${sign}</span> <span class=${short ? "hidden" : ""}>${word}</span></span>`;
  };

  /** A figure on the scale of its metric: its interval is a band. The numbers stand beside it, so nobody reads it aloud. */
  kshot.Interval = ({ value, ci95, bounds }) => {
    const [low, high] = bounds || [];
    if (![value, low, high].every(Number.isFinite)) return null;
    const at = (x) => (94 * (Math.min(Math.max(x, low), high) - low)) / (high - low);
    const [from, to] = (ci95 || [value, value]).map(at);
    return html`<svg class="interval" viewBox="0 0 96 12" aria-hidden="true">
      <rect class="scale" y="5" width="96" height="2" rx="1" />
      <rect class="band" x=${from} y="2" width=${to - from + 2} height="8" rx="2" />
      <rect class="value" x=${at(value)} width="2.5" height="12" rx="1" />
    </svg>`;
  };

  /** What went wrong: {message, where, hint}. */
  kshot.Failure = ({ error }) =>
    error && html`<div class="notice failed" role="alert"><p><b>${error.message || String(error)}</b> ${error.where}</p><p>${error.hint}</p></div>`;

  // ---- light or dark: as the system has it, until somebody says otherwise ----

  const root = document.documentElement.dataset;
  const THEMES = { system: ["◐", "light"], light: ["☀", "dark"], dark: ["☾", "system"] };
  const stored = (act) => {
    try {
      return act(localStorage);
    } catch {
      return null; // pages from disk may have no storage
    }
  };
  const kept = stored((storage) => storage.getItem("kshot-theme"));
  root.theme = THEMES[kept] ? kept : "system";

  /** A button that goes from system to light to dark. */
  kshot.ThemeButton = () => {
    const [theme, setTheme] = useState(root.theme);
    const [sign, next] = THEMES[theme];
    const choose = () => {
      stored((storage) => storage.setItem("kshot-theme", next));
      setTheme((root.theme = next));
    };
    return html`<button class="button quiet" onClick=${choose} aria-label="Theme: ${theme}" title="Theme: ${theme}. Press for ${next}.">
      <span aria-hidden="true">${sign}</span></button>`;
  };
}
