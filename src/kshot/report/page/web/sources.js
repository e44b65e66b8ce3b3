// Where pages get their data. `kshot.source` has runs(), run(key), facets(key, metric), samples(key, query, offset, limit),
// sample(key, n, {other, metric}) and comparison(a, b), all promises; this one asks the server of `kshot view`.
"use strict";

/** Make an error of what a server says: {error, where, hint}. */
kshot.failure = ({ error, where = "", hint = "" }, status = 0) => Object.assign(new Error(error), { where, hint, status });

/** The data of a running `kshot view`. An answer with the state "indexing", "comparing" … is not ready: ask again. */
kshot.serverSource = () => {
  const known = {};

  const ask = async (path, query = {}, { keep = false } = {}) => {
    const given = Object.entries(query).filter(([, value]) => value !== "" && value !== undefined && value !== null);
    const written = new URLSearchParams(given).toString();
    const headers = known[path] ? { "If-None-Match": known[path].tag } : {};
    const answer = await fetch(path + (written && "?" + written), { headers, cache: "no-store" }).catch(() => {
      throw kshot.failure({ error: "kshot view does not answer", hint: "Start it again in its terminal, and open the new link." });
    });
    if (answer.status === 304) return known[path].body; // the same object: nothing is drawn again
    const body = await answer.json().catch(() => ({ error: `the server answered ${answer.status}` }));
    if (!answer.ok) throw kshot.failure(body, answer.status);
    if (keep) known[path] = { tag: answer.headers.get("ETag"), body };
    return body;
  };

  const of = (key) => "api/runs/" + encodeURIComponent(key);
  return {
    kind: "server",
    live: true,
    runs: () => ask("api/runs", {}, { keep: true }),
    run: (key) => ask(of(key), {}, { keep: true }),
    facets: (key, metric) => ask(of(key) + "/facets", { metric }),
    samples: (key, query, offset = 0, limit = 50) => ask(of(key) + "/samples", { ...query, offset, limit }),
    sample: (key, n, { other, metric } = {}) => ask(`${of(key)}/samples/${n}`, { other, metric }),
    comparison: (a, b) => ask("api/compare", { a, b }),
  };
};

if (document.documentElement.dataset.source === "server") {
  kshot.source = kshot.serverSource();
  if (location.search) history.replaceState(null, "", location.pathname + location.hash); // the token was read
}
