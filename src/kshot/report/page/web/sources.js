// Where pages get their data: from the server of `kshot view`, or from the files of a static site or a report.
"use strict";

{
  /** Make an error of what a server says: {error, where, hint}. */
  const failure = ({ error, where = "", hint = "" }, status = 0) => Object.assign(new Error(error), { where, hint, status });

  const GONE = { error: "kshot view does not answer", hint: "Start it again in its terminal, and open the new link." };

  // ---- a server ----

  const ask = async (path, query = {}, headers = {}) => {
    const given = Object.entries(query).filter(([, value]) => value !== "" && value !== undefined && value !== null);
    const written = new URLSearchParams(given).toString();
    const answer = await fetch(path + (written && "?" + written), { headers, cache: "no-store" }).catch(() => {
      throw failure(GONE);
    });
    if (answer.status === 304) return { answer };
    const body = await answer.json().catch(() => ({ error: `the server answered ${answer.status}` }));
    if (!answer.ok) throw failure(body, answer.status);
    return { answer, body };
  };

  /** The data of a running `kshot view`. An answer may have the state "indexing", "searching" or "comparing": ask again. */
  kshot.serverSource = () => {
    const of = (key) => "api/runs/" + encodeURIComponent(key);
    const known = {};
    /** Ask for what is asked for again and again: what has not changed is the same object as before. */
    const poll = async (path) => {
      const last = known[path];
      const { answer, body } = await ask(path, {}, last ? { "If-None-Match": last.tag } : {});
      if (body) known[path] = { tag: answer.headers.get("ETag"), body };
      return known[path].body;
    };
    const get = async (path, query) => (await ask(path, query)).body;
    return {
      kind: "server",
      live: true,
      runs: () => poll("api/runs"),
      run: (key) => poll(of(key)),
      facets: (key, metric) => get(of(key) + "/facets", { metric }),
      samples: (key, query, offset = 0, limit = 50) => get(of(key) + "/samples", { ...query, offset, limit }),
      sample: (key, n, { other, metric } = {}) => get(`${of(key)}/samples/${n}`, { other, metric }),
      comparison: (a, b) => get("api/compare", { a, b }),
    };
  };

  // ---- files ----

  const VERDICTS = { r: "right", p: "partly", w: "wrong", f: "failed", u: "unrated" };
  const CODES = { right: "r", partly: "p", wrong: "pw", failed: "f", unrated: "u" };
  const FLIPS = { w: "won", l: "lost" };
  const TURNED = { w: "l", l: "w" };
  const NAMED = ["task", "model", "category", "answer"];
  const MOST_ANSWERS = 30;

  /*
   * `data/runs/KEY/columns.json` says of the samples that are here, one value each, in the order of the blocks:
   *   {total: samples of the run, blocks: samples in each block, metrics: ["headline", …],
   *    names: {task: […], model: […], category: […], answer: […]},
   *    columns: {n: [line numbers; absent: 0, 1, 2 …], id: […], text: […], target: […],
   *              task, model, category, answer: [positions in names; -1: none],
   *              verdict: {headline: "rpwfu…", METRIC: …}, score: {headline: [number|null …], METRIC: …}}}
   * `data/runs/KEY/block-B.json` are SampleCards; `data/compare/A/B.json` has pairs [[n in A, n in B] …] and flips, a text
   * with a letter for each pair: w (won: B is right, A is not), l (lost), b (both), n (neither).
   */

  /** The data of files: `read(name)` promises what one holds, such as "data/runs.json". */
  kshot.packedSource = (read) => {
    const kept = new Map();
    const KEPT = 40;
    /** Read a file once; of the many blocks only the last ones are kept. */
    const file = (name) => {
      const found = kept.get(name) ?? read(name);
      kept.delete(name);
      kept.set(name, found);
      found.catch(() => kept.delete(name));
      const blocks = [...kept.keys()].filter((each) => each.includes("/block-"));
      if (blocks.length > KEPT) kept.delete(blocks[0]);
      return found;
    };

    const table = async (key) => {
      const found = await file(`data/runs/${key}/columns.json`);
      found.count ??= found.columns.id.length;
      found.columns.n ??= Array.from({ length: found.count }, (_, at) => at);
      found.at ??= new Map(found.columns.n.map((n, at) => [n, at]));
      return found;
    };

    const name = (found, column, at) => found.names[column][found.columns[column][at]] ?? null;
    const byMetric = (found, column, metric) => found.columns[column][metric || "headline"] ?? found.columns[column].headline;

    const line = (found, at, metric) => ({
      n: found.columns.n[at],
      ...Object.fromEntries(NAMED.map((column) => [column, name(found, column, at)])),
      ...Object.fromEntries(["id", "text", "target"].map((column) => [column, found.columns[column][at]])),
      verdict: VERDICTS[byMetric(found, "verdict", metric)[at]],
      score: byMetric(found, "score", metric)[at],
    });

    /** The pairs of a run with another, its baseline: n → {others: [n …], flip: "w"|"l"|"b"|"n"}. */
    const pairsWith = async (key, other) => {
      const [found, turned] = await file(`data/compare/${other}/${key}.json`).then(
        (value) => [value, false],
        async () => [await file(`data/compare/${key}/${other}.json`), true],
      );
      const name = turned ? "byFirst" : "bySecond";
      found[name] ??= found.pairs.reduce((all, pair, at) => {
        const [other, own] = turned ? [pair[1], pair[0]] : pair;
        const flip = turned ? (TURNED[found.flips[at]] ?? found.flips[at]) : found.flips[at];
        const earlier = all.get(own) ?? { others: [], flip };
        if (!FLIPS[earlier.flip]) earlier.flip = flip;
        earlier.others.push(other);
        return all.set(own, earlier);
      }, new Map());
      return found[name];
    };

    const card = async (key, n, metric) => {
      const found = await table(key);
      const at = found.at.get(Number(n));
      if (at === undefined) throw failure({ error: `sample ${n} is not among the ${found.count} of ${found.total} that are here` });
      const block = await file(`data/runs/${key}/block-${Math.floor(at / found.blocks)}.json`);
      const { verdict, score } = line(found, at, metric);
      const whole = block[at % found.blocks];
      return metric && metric !== "headline" ? { ...whole, verdict, score, metric } : whole;
    };

    const searches = {};
    /** Look through all blocks for a text, in steps; the last search of a run is kept. */
    const search = (key, found, q) => {
      if (searches[key]?.q === q) return searches[key];
      const own = (searches[key] = { q, hits: new Set(), share: 0, state: "searching" });
      const words = q.toLowerCase();
      const count = Math.ceil(found.count / found.blocks);
      (async () => {
        for (let block = 0; block < count && searches[key] === own; block++) {
          const cards = await file(`data/runs/${key}/block-${block}.json`);
          cards.forEach((each, at) => kshot.contains(each, words) && own.hits.add(block * found.blocks + at));
          own.share = (block + 1) / count;
        }
        own.state = "ready";
      })().catch((error) => Object.assign(own, { error, state: "ready" }));
      return own;
    };

    const order = (found, sort, metric) => {
      const { columns } = found;
      if (sort === "score") return byMetric(found, "score", metric);
      if (NAMED.includes(sort)) return columns[sort].map((_, at) => name(found, sort, at));
      return columns[sort] ?? columns.n;
    };

    return {
      kind: "packed",
      live: false,
      runs: () => file("data/runs.json"),
      run: (key) => file(`data/runs/${key}/run.json`),

      async facets(key, metric) {
        const found = await table(key);
        const counted = (column) => {
          const counts = found.names[column].map((name) => ({ name, count: 0 }));
          found.columns[column].forEach((code) => code >= 0 && counts[code].count++);
          return counts.filter(({ count }) => count);
        };
        const verdicts = Object.fromEntries(Object.values(VERDICTS).map((name) => [name, 0]));
        for (const letter of byMetric(found, "verdict", metric)) verdicts[VERDICTS[letter]]++;
        const answers = counted("answer").sort((a, b) => b.count - a.count).slice(0, MOST_ANSWERS);
        const [tasks, models, categories] = NAMED.map(counted);
        return { state: "ready", share: 1, total: found.count, of: found.total, metrics: found.metrics, tasks, models, categories, answers, verdicts };
      },

      async samples(key, query = {}, offset = 0, limit = 50) {
        const { verdict, q, metric, sort = "run", reverse, other, flip } = query;
        const found = await table(key);
        const pairs = other ? await pairsWith(key, other) : new Map();
        const flipOf = (at) => FLIPS[pairs.get(found.columns.n[at])?.flip] ?? null;
        const wanted = verdict ? verdict.split(",").map((each) => CODES[each] ?? "").join("") : null;
        const verdicts = byMetric(found, "verdict", metric);
        const codes = NAMED.filter((column) => query[column]).map((column) => [column, found.names[column].indexOf(query[column])]);
        let hits = null;
        if (q?.trim()) {
          const searched = search(key, found, q.trim());
          if (searched.error) throw searched.error;
          if (searched.state !== "ready") return { state: "searching", share: searched.share, total: found.count, matching: 0, rows: [] };
          hits = searched.hits;
        }
        const chosen = [];
        for (let at = 0; at < found.count; at++) {
          if (wanted !== null && !wanted.includes(verdicts[at])) continue;
          if (codes.some(([column, code]) => code < 0 || found.columns[column][at] !== code)) continue;
          if (hits && !hits.has(at)) continue;
          if (flip && (flip === "flipped" ? !flipOf(at) : flipOf(at) !== flip)) continue;
          chosen.push(at);
        }
        const values = order(found, sort, metric);
        const way = reverse && reverse !== "0" ? -1 : 1;
        chosen.sort((a, b) => {
          const [one, two] = [values[a], values[b]];
          if (one === two) return found.columns.n[a] - found.columns.n[b];
          if (one === null || two === null) return one === null ? 1 : -1; // what is not known comes last, either way
          return (one < two ? -1 : 1) * way;
        });
        const rows = chosen.slice(offset, offset + limit).map((at) => ({ ...line(found, at, metric), ...(other && { flip: flipOf(at) }) }));
        return { state: "ready", share: 1, total: found.count, matching: chosen.length, rows };
      },

      async sample(key, n, { other, metric } = {}) {
        const sample = await card(key, n, metric);
        const pair = other ? (await pairsWith(key, other)).get(sample.n) : null;
        const others = await Promise.allSettled((pair?.others ?? []).map((each) => card(other, each, metric)));
        return { sample, others: others.filter(({ value }) => value).map(({ value }) => value) };
      },

      comparison: async (a, b) => {
        const swapped = () => failure({ error: "these pages have no comparison of these two runs, in this order", hint: "Compare them the other way round." });
        return file(`data/compare/${a}/${b}.json`).catch(() => Promise.reject(swapped()));
      },
    };
  };

  /** Whether a text stands in what a sample asks, answers or says, in small or capital letters. */
  kshot.contains = (value, words) => {
    if (typeof value === "string") return value.toLowerCase().includes(words);
    return value !== null && typeof value === "object" && Object.values(value).some((each) => kshot.contains(each, words));
  };

  /** The page says where its data is; that of a report is within it, and its own script opens it. */
  const where = document.documentElement.dataset.source;
  if (where === "server") kshot.source = kshot.serverSource();
  if (where === "files") {
    kshot.source = kshot.packedSource(async (name) => {
      const answer = await fetch(name, { cache: "no-cache" });
      if (!answer.ok) throw failure({ error: `${name} is not there (${answer.status})` }, answer.status);
      return answer.json();
    });
  }
  if (where === "server" && location.search) history.replaceState(null, "", location.pathname + location.hash);
}
