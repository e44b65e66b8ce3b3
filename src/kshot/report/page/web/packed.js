// The data of static pages and of report.html: files, filtered, sorted and searched here as the server does it.
//
// `data/runs/KEY/columns.json` says of the samples that are here, in the order of the blocks:
//   {total: samples of the run, blocks: samples in each block, metrics: ["headline", …], downward: [metrics …],
//    names: {task: […], model: […], category: […], answer: […]},
//    columns: {n: [line numbers], id: […], text: […], target: […], task, model, category, answer: [positions in names; -1: none],
//              verdict: {headline: "rpwfu…", METRIC: …}, score: {headline: [number|null …], METRIC: …}}}
// `data/runs/KEY/block-B.json` are SampleCards. `data/compare/A/B.json` has pairs [[n in A, n in B] …] and flips, a text with
// a letter for each: w (won: B is right, A is not), l (lost), b (both), n (neither), - (one of them has no answer).
"use strict";

/** `read(name)` promises what a file holds, such as "data/runs.json". */
kshot.packedSource = (read) => {
  const VERDICTS = { r: "right", p: "partly", w: "wrong", f: "failed", u: "unrated" };
  const LETTERS = { right: "r", partly: "p", wrong: "pw", failed: "f", unrated: "u" };
  const FLIPS = { w: "won", l: "lost" };
  const TURNED = { w: "l", l: "w" };
  const NAMED = ["task", "model", "category", "answer"];
  const [MOST_ANSWERS, MOST_BLOCKS] = [30, 40];

  // ---- files ----

  const kept = new Map();
  /** Read a file once; of the many blocks the last ones are kept. */
  const file = (name) => {
    const found = kept.get(name) ?? read(name);
    kept.delete(name);
    kept.set(name, found);
    found.catch(() => kept.delete(name));
    const blocks = [...kept.keys()].filter((each) => each.includes("/block-"));
    if (blocks.length > MOST_BLOCKS) kept.delete(blocks[0]);
    return found;
  };

  const table = async (key) => {
    const found = await file(`data/runs/${key}/columns.json`);
    found.at ??= new Map(found.columns.n.map((n, at) => [n, at]));
    return found;
  };

  const name = (found, column, at) => found.names[column][found.columns[column][at]] ?? null;
  const byMetric = (found, column, metric) => {
    const values = found.columns[column][metric || "headline"];
    if (!values) throw kshot.failure({ error: `these pages do not have the metric ${metric}` });
    return values;
  };

  const line = (found, at, metric) => ({
    n: found.columns.n[at],
    ...Object.fromEntries(NAMED.map((column) => [column, name(found, column, at)])),
    ...Object.fromEntries(["id", "text", "target"].map((column) => [column, found.columns[column][at]])),
    verdict: VERDICTS[byMetric(found, "verdict", metric)[at]],
    score: byMetric(found, "score", metric)[at],
  });

  const card = async (key, n, metric) => {
    const found = await table(key);
    const at = found.at.get(Number(n));
    if (at === undefined) throw kshot.failure({ error: `sample ${n} is not among the ${found.at.size} of ${found.total} samples that are here` });
    const whole = (await file(`data/runs/${key}/block-${Math.floor(at / found.blocks)}.json`))[at % found.blocks];
    if (!metric || metric === "headline") return whole;
    const { verdict, score } = line(found, at, metric);
    return { ...whole, verdict, score, metric };
  };

  // ---- two runs ----

  /** The pairs of a run with another one, its baseline: n → {others: [n …], flip: "w"|"l"|"b"|"n"|"-"}. */
  const pairsWith = async (key, other) => {
    const [found, turned] = await file(`data/compare/${other}/${key}.json`).then(
      (value) => [value, false],
      async () => [await file(`data/compare/${key}/${other}.json`), true],
    );
    const side = turned ? "byFirst" : "bySecond";
    found[side] ??= found.pairs.reduce((all, pair, at) => {
      const [theirs, own] = turned ? [pair[1], pair[0]] : pair;
      const flip = (turned && TURNED[found.flips[at]]) || found.flips[at];
      const held = all.get(own) ?? { others: [], flip };
      if (!FLIPS[held.flip]) held.flip = flip;
      held.others.push(theirs);
      return all.set(own, held);
    }, new Map());
    return found[side];
  };

  // ---- search: words and "phrases" that all stand in a sample; the last word may go on ----

  const CJK = /[\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}\p{scx=Hangul}]/gu;
  const plain = (text) => {
    const bare = text.normalize("NFD").replace(/\p{Mn}/gu, "").normalize("NFC").toLowerCase();
    return ` ${(bare.replace(CJK, " $& ").match(/[\p{L}\p{N}\p{Co}]+/gu) ?? []).join(" ")} `;
  };
  const SEARCHED = ["prompt", "query", "components", "reasoning", "replies", "options", "likelihood", "answer", "answers", "targets", "failed", "judge"];
  const UNSEARCHED = ["role", "above", "state", "tokens", "token_logprobs", "stop_reason"];
  const texts = (value) => {
    if (typeof value === "string") return [value];
    if (value === null || typeof value !== "object") return [];
    return Object.entries(value).flatMap(([part, each]) => (UNSEARCHED.includes(part) ? [] : texts(each)));
  };

  const wordsOf = (q) => {
    const pieces = [...q.matchAll(/"([^"]*)"|([^\s"]+)/g)].map(([, phrase, word]) => ({ text: plain(phrase ?? word), open: word !== undefined }));
    const last = pieces.length - 1;
    return pieces.filter(({ text }) => text.trim()).map(({ text, open }, at) => (open && at === last ? text.trimEnd() : text));
  };

  const searches = {};
  /** Look through all blocks, in steps; the last search of a run is kept. */
  const search = (key, found, q) => {
    if (searches[key]?.q === q) return searches[key];
    const own = (searches[key] = { q, hits: new Set(), share: 0, done: false });
    const words = wordsOf(q);
    const count = words.length && Math.ceil(found.at.size / found.blocks);
    const look = async () => {
      for (let block = 0; block < count && searches[key] === own; block++) {
        const cards = await file(`data/runs/${key}/block-${block}.json`);
        cards.forEach((each, at) => {
          const said = [...SEARCHED.map((part) => each[part]), (each.passages ?? []).map(({ id }) => id)];
          const text = plain(texts(said).join("\n"));
          if (words.every((word) => text.includes(word))) own.hits.add(block * found.blocks + at);
        });
        own.share = (block + 1) / count;
      }
      own.done = true;
    };
    look().catch((error) => Object.assign(own, { error, done: true }));
    return own;
  };

  // ---- lists ----

  /** 9 comes before 10, and letters count whatever their case: a text as pieces that are compared one by one. */
  const natural = (text) =>
    (text.match(/\d+|\D+/g) ?? []).map((piece) => {
      const digits = piece.replace(/^0+/, "");
      return /\d/.test(piece[0]) ? [0, digits.length, digits] : [1, 0, piece.toLowerCase()];
    });
  const inOrder = (a, b) => {
    for (let at = 0; at < a.length && at < b.length; at++) {
      for (let part = 0; part < 3; part++) {
        if (a[at][part] !== b[at][part]) return a[at][part] < b[at][part] ? -1 : 1;
      }
    }
    return a.length - b.length;
  };
  /** The places of texts in their natural order. Equal ones share a place; answers, which are told apart, do not. */
  const ranks = (texts, apart) => {
    const keys = texts.map(natural);
    const compare = (a, b) => inOrder(keys[a], keys[b]) || (apart && (texts[a] < texts[b] ? -1 : 1));
    const order = texts.map((_, at) => at).sort(compare);
    const found = [];
    order.forEach((at, rank) => (found[at] = rank && !compare(order[rank - 1], at) ? found[order[rank - 1]] : rank));
    return found;
  };

  /** What samples are sorted by, as numbers; null where a sample has none. */
  const valuesOf = (found, sort, metric) => {
    if (sort === "score") {
      const scores = byMetric(found, "score", metric);
      return (found.downward ?? []).includes(metric || "headline") ? scores.map((score) => score && -score) : scores; // the worst first
    }
    found.ranks ??= {};
    if (NAMED.includes(sort)) {
      const known = (found.ranks[sort] ??= ranks(found.names[sort], sort === "answer"));
      return found.columns[sort].map((code) => (code < 0 || (sort === "answer" && !found.names[sort][code]) ? null : known[code]));
    }
    return (found.ranks[sort] ??= ranks(found.columns[sort], false));
  };

  const sorted = (found, chosen, { sort = "run", reverse, metric }) => {
    const { n } = found.columns;
    const way = reverse && reverse !== "0" ? -1 : 1;
    if (sort === "run") return chosen.sort((a, b) => (n[a] - n[b]) * way);
    const values = valuesOf(found, sort, metric);
    return chosen.sort((a, b) => {
      if (values[a] === null || values[b] === null) return (values[a] === null) - (values[b] === null) || n[a] - n[b];
      return (values[a] - values[b]) * way || n[a] - n[b];
    });
  };

  const chosenOf = (found, query, flipOf, hits) => {
    const { verdict, flip, metric } = query;
    const letters = verdict && verdict.split(",").map((each) => LETTERS[each] ?? "").join("");
    const verdicts = byMetric(found, "verdict", metric);
    const codes = NAMED.filter((column) => query[column]).map((column) => [found.columns[column], found.names[column].indexOf(query[column])]);
    return found.columns.n.map((_, at) => at).filter((at) =>
      (!letters || letters.includes(verdicts[at])) &&
      codes.every(([column, code]) => code >= 0 && column[at] === code) &&
      (!hits || hits.has(at)) &&
      (!flip || (flip === "flipped" ? flipOf(at) : flipOf(at) === flip)));
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
        return counts;
      };
      const verdicts = Object.fromEntries(Object.values(VERDICTS).map((name) => [name, 0]));
      for (const letter of byMetric(found, "verdict", metric)) verdicts[VERDICTS[letter]]++;
      const [tasks, models, categories, every] = NAMED.map(counted);
      const answers = every.filter(({ name }) => name).sort((a, b) => b.count - a.count).slice(0, MOST_ANSWERS);
      return { state: "ready", share: 1, total: found.at.size, of: found.total, metrics: found.metrics, tasks, models, categories, answers, verdicts };
    },

    async samples(key, query = {}, offset = 0, limit = 50) {
      const found = await table(key);
      const pairs = query.other ? await pairsWith(key, query.other) : new Map();
      const flipOf = (at) => FLIPS[pairs.get(found.columns.n[at])?.flip] ?? null;
      const q = (query.q ?? "").trim();
      const searched = q ? search(key, found, q) : { done: true };
      if (searched.error) throw searched.error;
      if (!searched.done) return { state: "searching", share: searched.share, total: found.at.size, matching: 0, rows: [] };
      const chosen = sorted(found, chosenOf(found, query, flipOf, searched.hits), query);
      const rows = chosen.slice(offset, offset + limit).map((at) => ({ ...line(found, at, query.metric), ...(query.other && { flip: flipOf(at) }) }));
      return { state: "ready", share: 1, total: found.at.size, matching: chosen.length, rows };
    },

    async sample(key, n, { other, metric } = {}) {
      const sample = await card(key, n, metric);
      const pair = other ? (await pairsWith(key, other)).get(sample.n) : null;
      const others = await Promise.allSettled((pair?.others ?? []).map((each) => card(other, each, metric)));
      return { sample, others: others.filter(({ value }) => value).map(({ value }) => value) };
    },

    comparison: (a, b) =>
      file(`data/compare/${a}/${b}.json`).catch(() => {
        throw kshot.failure({ error: "these pages have no comparison of these two runs", hint: "kshot compare makes it from the run folders." });
      }),
  };
};

if (document.documentElement.dataset.source === "files") {
  kshot.source = kshot.packedSource(async (name) => {
    const answer = await fetch(name, { cache: "no-cache" });
    if (!answer.ok) throw kshot.failure({ error: `${name} is not there (${answer.status})` }, answer.status);
    return answer.json();
  });
}
