// The data of static pages and of report.html: files, filtered, sorted and searched here as the server does it.
//
// `data/runs/KEY/columns.json` says of the samples that are here, in the order of the blocks:
//   {total: samples of the run, blocks: samples in each block, metrics: ["headline", …],
//    downward: {METRIC: [tasks of which lower scores are better …]},
//    names: {task: […], model: […], category: […], answer: […]},
//    columns: {n: [line numbers], id: […], text: […], target: […], task, model, category, answer: [positions in names; -1: none],
//              verdict: {headline: "rpwfu…", METRIC: …}, score: {headline: [number|null …], METRIC: …}}}
// `data/runs/KEY/block-B.json` are SampleCards. `data/compare/A/B.json` has pairs [[n in A, n in B] …] and flips, a text with
// a letter for each: w (won: B is right, A is not), l (lost), b (both), n (neither), - (one of them has no answer).
// `data/runs.json` may have comparisons [[A, B] …]: those that are here.
"use strict";

{
  const VERDICTS = { r: "right", p: "partly", w: "wrong", f: "failed", u: "unrated" };
  const LETTERS = Object.fromEntries(Object.entries(VERDICTS).map(([letter, name]) => [name, letter]));
  const FLIPS = { w: "won", l: "lost" };
  const ANSWERED = ["r", "p", "w"];
  const TURNED = { w: "l", l: "w" };
  const NAMED = ["task", "model", "category", "answer"];
  const [MOST_ANSWERS, MOST_BLOCKS] = [30, 40];

  // ---- files ----

  /** Read each file once; of the many blocks the last ones are kept. A part of the address that is no key names no file. */
  const filesOf = (read) => {
    const kept = new Map();
    const blocks = [];
    return async (...parts) => {
      const strange = parts.find((part) => !/^(?!\.+$)[\w.-]+$/.test(part));
      if (strange !== undefined) throw kshot.failure({ error: `there is no run ${strange}` });
      const name = `data/${parts.join("/")}.json`;
      if (!kept.has(name)) {
        kept.set(name, read(name));
        if (parts[2]?.startsWith("block-")) blocks.push(name);
        if (blocks.length > MOST_BLOCKS) kept.delete(blocks.shift());
      }
      return kept.get(name).catch((error) => {
        kept.delete(name);
        throw error;
      });
    };
  };

  const byMetric = (found, column, metric) => {
    const values = found.columns[column][metric || "headline"];
    if (!values) throw kshot.failure({ error: `these pages do not have the metric ${metric}` });
    return values;
  };

  const lineOf = (found, at, metric) => ({
    n: found.columns.n[at],
    ...Object.fromEntries(NAMED.map((column) => [column, found.names[column][found.columns[column][at]] ?? null])),
    ...Object.fromEntries(["id", "text", "target"].map((column) => [column, found.columns[column][at]])),
    verdict: VERDICTS[byMetric(found, "verdict", metric)[at]],
    score: byMetric(found, "score", metric)[at],
  });

  /** Count names and verdicts, as the server does. */
  const facetsOf = (found, metric) => {
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
  };

  // ---- search: words and "phrases" that all stand in a sample; the last word may go on ----

  const CJK = /[\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}\p{scx=Hangul}]/gu;
  const plain = (text) => {
    const bare = text.normalize("NFD").replace(/\p{Mn}/gu, "").normalize("NFC").toLowerCase();
    return ` ${(bare.replace(CJK, " $& ").match(/[\p{L}\p{N}\p{Co}]+/gu) ?? []).join(" ")} `;
  };
  const SEARCHED = ["query", "components", "reasoning", "replies", "options", "likelihood", "answer", "answers", "targets", "failed", "judge"];
  const UNSEARCHED = ["role", "above", "state", "tokens", "token_logprobs", "stop_reason", "label", "measured"];
  const texts = (value) => {
    if (typeof value === "string") return [value];
    if (value === null || typeof value !== "object") return [];
    return Object.entries(value).flatMap(([part, each]) => (UNSEARCHED.includes(part) ? [] : texts(each)));
  };

  const wordsOf = (q) => {
    const pieces = [...q.matchAll(/"([^"]*)"|([^\s"]+)/g)].map(([, phrase, word]) => ({ text: plain(phrase ?? word), open: word !== undefined }));
    const known = pieces.filter(({ text }) => text.trim());
    return known.map(({ text, open }, at) => (open && at === known.length - 1 ? text.trimEnd() : text));
  };

  /** What a prompt asks, without the examples above it, which would find every sample. */
  const asked = ({ messages, asks, asks_at: start }) => messages.slice(asks).map(({ content }, at) => (at ? content : content.slice(start)));

  const searchedText = (card) => {
    const prompt = card.prompt?.shots ? asked(card.prompt) : card.prompt;
    return plain(texts([prompt, ...SEARCHED.map((part) => card[part]), (card.passages ?? []).map(({ id }) => id)]).join("\n"));
  };

  /** Look through all blocks, in steps; the last search of a run is kept, unless it failed. */
  const searcher = (file) => {
    const searches = {};
    const look = async (key, found, own) => {
      const words = wordsOf(own.q);
      const count = words.length && Math.ceil(found.at.size / found.blocks);
      for (let block = 0; block < count && searches[key] === own; block++) {
        const cards = await file("runs", key, `block-${block}`);
        cards.forEach((card, at) => {
          const text = searchedText(card);
          if (words.every((word) => text.includes(word))) own.hits.add(block * found.blocks + at);
        });
        own.share = (block + 1) / count;
      }
      own.done = true;
    };
    return (key, found, q) => {
      if (searches[key]?.q === q) {
        const known = searches[key];
        if (known.error) delete searches[key]; // who asks again gets another search
        return known;
      }
      const own = (searches[key] = { q, hits: new Set(), share: 0, done: false });
      look(key, found, own).catch((error) => Object.assign(own, { error, done: true }));
      return own;
    };
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
      const downward = found.downward[metric || "headline"] ?? [];
      const isDown = found.names.task.map((task) => downward.includes(task));
      return scores.map((score, at) => (score && isDown[found.columns.task[at]] ? -score : score)); // the worst first
    }
    found.ranks ??= {};
    if (NAMED.includes(sort)) {
      const known = (found.ranks[sort] ??= ranks(found.names[sort], sort === "answer"));
      return found.columns[sort].map((code) => (code < 0 || (sort === "answer" && !found.names[sort][code]) ? null : known[code]));
    }
    return (found.ranks[sort] ??= ranks(found.columns[sort], false));
  };

  /** Put samples into an order; `first`: that of the file, unless another one is wanted. */
  const sorted = (found, chosen, { sort, reverse, metric }, first) => {
    const { n } = found.columns;
    const way = reverse && reverse !== "0" ? -1 : 1;
    if (!sort && first) return way > 0 ? chosen : chosen.reverse();
    if (!sort || sort === "run") return chosen.sort((a, b) => (n[a] - n[b]) * way);
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

  // ---- two runs ----

  /** The pairs of a run with another one, its baseline: n → {others: [n …], flip: "w"|"l"|"b"|"n"|"-"}. */
  const pairsOf = async (file, key, other) => {
    const [found, turned] = await file("compare", other, key).then(
      (value) => [value, false],
      async () => [await file("compare", key, other), true],
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

  const uncompared = () => {
    throw kshot.failure({ error: "these pages have no comparison of these two runs", hint: "kshot compare makes it from the run folders." });
  };

  /** `read(name)` promises what a file holds, such as "data/runs.json". `order` says in words how the samples of the file are
   * sorted, if it is not the order of the run. */
  kshot.packedSource = (read, order = "") => {
    const file = filesOf(read);
    const search = searcher(file);

    const table = async (key) => {
      const found = await file("runs", key, "columns");
      found.at ??= new Map(found.columns.n.map((n, at) => [n, at]));
      return found;
    };

    const card = async (key, n, metric) => {
      const found = await table(key);
      const at = found.at.get(Number(n));
      if (at === undefined) throw kshot.failure({ error: `sample ${n} is not among the ${found.at.size} of ${found.total} samples that are here` });
      const whole = (await file("runs", key, `block-${Math.floor(at / found.blocks)}`))[at % found.blocks];
      if (!metric || metric === "headline") return whole;
      const { verdict, score } = lineOf(found, at, metric);
      return { ...whole, verdict, score, metric };
    };

    /** Whether a sample was won or lost, by its number: by another metric than the headline, the verdicts of both say it. */
    const flipsOf = async (key, { other, metric }) => {
      if (!other) return () => null;
      const pairs = await pairsOf(file, key, other).catch(uncompared);
      if (!metric || metric === "headline") return (n) => FLIPS[pairs.get(n)?.flip] ?? null;
      const [own, theirs] = (await Promise.all([table(key), table(other)])).map((found) => (n) => byMetric(found, "verdict", metric)[found.at.get(n)]);
      const flipped = (n) => (each) => ANSWERED.includes(own(n)) && ANSWERED.includes(theirs(each)) && (own(n) === "r") !== (theirs(each) === "r");
      return (n) => (pairs.get(n)?.others.some(flipped(n)) ? (own(n) === "r" ? "won" : "lost") : null);
    };

    return {
      kind: "packed",
      live: false,
      order,
      runs: () => file("runs"),
      run: (key) => file("runs", key, "run"),
      facets: async (key, metric) => facetsOf(await table(key), metric),
      comparison: (a, b) => file("compare", a, b).catch(uncompared),

      async samples(key, query = {}, offset = 0, limit = 50) {
        const found = await table(key);
        const flips = await flipsOf(key, query);
        const flipOf = (at) => flips(found.columns.n[at]);
        const q = (query.q ?? "").trim();
        const searched = q ? search(key, found, q) : { done: true };
        if (searched.error) throw searched.error;
        if (!searched.done) return { state: "searching", share: searched.share, total: found.at.size, matching: 0, rows: [] };
        const chosen = sorted(found, chosenOf(found, query, flipOf, searched.hits), query, order);
        const rows = chosen.slice(offset, offset + limit).map((at) => ({ ...lineOf(found, at, query.metric), ...(query.other && { flip: flipOf(at) }) }));
        const place = chosen.indexOf(found.at.get(Number(query.find)));
        const placed = query.find !== undefined && { place: place < 0 ? null : place };
        return { state: "ready", share: 1, total: found.at.size, matching: chosen.length, rows, ...placed };
      },

      async sample(key, n, { other, metric } = {}) {
        const sample = await card(key, n, metric);
        const pair = other ? (await pairsOf(file, key, other).catch(uncompared)).get(sample.n) : null;
        const others = await Promise.allSettled((pair?.others ?? []).map((each) => card(other, each, metric)));
        return { sample, others: others.filter(({ value }) => value).map(({ value }) => value) };
      },
    };
  };
}

if (document.documentElement.dataset.source === "files") {
  kshot.source = kshot.packedSource(async (name) => {
    const answer = await fetch(name, { cache: "no-cache" });
    if (!answer.ok) throw kshot.failure({ error: `${name} is not there (${answer.status})` }, answer.status);
    return answer.json();
  });
}
