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
    history.replaceState(null, "", link);
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
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.closest("input, textarea, select, [contenteditable]");
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

/** Write a number as tables do; "–" where there is none. */
kshot.number = (value, digits = 2) =>
  value === null || value === undefined ? "–" : value.toLocaleString("en-US", { maximumFractionDigits: digits, minimumFractionDigits: digits });

/** Write a count: 100,000. */
kshot.count = (value) => value.toLocaleString("en-US");

/** Signs and words of the verdicts: who does not see the colour sees the others. */
kshot.VERDICTS = {
  right: { sign: "✓", word: "right" },
  partly: { sign: "~", word: "partly right" },
  wrong: { sign: "✗", word: "wrong" },
  failed: { sign: "!", word: "failed" },
  unrated: { sign: "·", word: "not rated" },
};
