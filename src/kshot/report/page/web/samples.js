// The samples of a run: filters, and a list of any length of which only the visible rows are in the page.
"use strict";

{
  const { html, useState, useEffect, useLayoutEffect, useMemo, useRef, count } = kshot;

  const HEIGHT = 54;
  const PAGE = 100;
  const KEPT_PAGES = 60;
  const MORE_ROWS = 8;
  const TALLEST = 12e6; // browsers draw no element beyond some 17 million pixels
  const ASKED = ["verdict", "task", "model", "category", "answer", "q", "metric", "sort", "reverse", "other", "flip"];
  const SORTS = { "": "order of the run", score: "score", id: "id", task: "task", category: "category", answer: "answer" };
  const FLIPS = { "": "all samples", flipped: "flipped", won: "won: right here alone", lost: "lost: right there alone" };

  /** The rows that fit a query, fetched by pages as they are looked at. */
  const rowsOf = (runKey, asked, changed) => {
    const pages = new Map();
    let ended = false;
    const list = { state: "loading", share: 0, total: 0, matching: 0, row: (at) => pages.get(Math.floor(at / PAGE))?.[at % PAGE] };
    list.end = () => (ended = true);
    list.want = (page) => {
      if (pages.has(page)) return;
      pages.set(page, null);
      kshot.source.samples(runKey, asked, page * PAGE, PAGE).then(
        (found) => {
          if (ended) return;
          const { state = "ready", share, total, matching, rows } = found;
          Object.assign(list, { state, share, total, matching });
          pages.set(page, rows);
          if (state !== "ready") setTimeout(() => !ended && pages.delete(page) && list.want(page), 300);
          if (pages.size > KEPT_PAGES) pages.delete([...pages.keys()].find((each) => each !== page));
          changed();
        },
        (error) => ended || changed(Object.assign(list, { state: "ready", error })),
      );
    };
    list.want(0);
    return list;
  };

  /** A hook: the list of a query. While a new one is on its way, the last one stays. */
  const useRows = (runKey, asked) => {
    const [, draw] = useState(0);
    const last = useRef();
    const list = useMemo(() => rowsOf(runKey, asked, () => draw((times) => times + 1)), [runKey, JSON.stringify(asked)]);
    useEffect(() => list.end, [list]);
    if (list.state !== "loading" || !last.current) last.current = list;
    return last.current;
  };

  const Choice = ({ label, name, options, query, set }) =>
    html`<label class="labelled"><span>${label}</span><select class="field" name=${name} value=${query[name] ?? ""} onChange=${(event) => set({ [name]: event.target.value })}>
      ${options.map(([value, word]) => html`<option value=${value}>${word}</option>`)}</select></label>`;

  const Filters = ({ runKey, facets, query, set, path, search }) => {
    const [typed, setTyped] = useState(query.q ?? "");
    const timer = useRef();
    useEffect(() => setTyped(query.q ?? ""), [query.q]);
    const type = (event) => {
      const q = event.target.value;
      setTyped(q);
      clearTimeout(timer.current);
      timer.current = setTimeout(() => set({ q }), 300);
    };
    const leave = (event) => {
      if (event.key !== "Escape" && event.key !== "Enter") return;
      event.preventDefault();
      event.stopPropagation();
      event.target.blur();
    };
    const chosen = (query.verdict || "").split(",").filter(Boolean);
    const toggle = (verdict) => set({ verdict: (chosen.includes(verdict) ? chosen.filter((each) => each !== verdict) : [...chosen, verdict]).join(",") });
    const { verdicts = {}, metrics = [] } = facets;
    const choice = (label, name, options) => html`<${Choice} ...${{ label, name, options, query, set }} />`;
    const named = (label, name, values = []) =>
      (values.length > 1 || query[name]) && choice(label, name, [["", "all"], ...values.map((each) => [each.name, `${each.name} (${count(each.count)})`])]);
    const clear = ["verdict", "task", "model", "category", "answer", "q", "flip"].filter((name) => query[name]);
    const shown = Object.entries(kshot.VERDICTS).filter(([name]) => verdicts[name] || chosen.includes(name));
    return html`<form class="filters" role="search" onSubmit=${(event) => event.preventDefault()}>
      <input ref=${search} type="search" class="field" aria-label="Search in samples" placeholder="Search in samples" title="key /" value=${typed} onInput=${type} onKeyDown=${leave} />
      <div class="chips" role="group" aria-label="Outcome">${shown.map(([name, { sign, word }]) => html`<button type="button" class="chip" aria-pressed=${chosen.includes(name)} onClick=${() => toggle(name)}>
        <span class="verdict ${name}" aria-hidden="true">${sign}</span> ${word} <span class="soft">${count(verdicts[name] ?? 0)}</span></button>`)}
        ${clear.length > 0 && html`<button type="button" class="chip clear" onClick=${() => set(Object.fromEntries(clear.map((name) => [name, ""])))}>Clear all</button>`}</div>
      <details class="choices" open=${innerWidth > 900}><summary>Filter, sort, compare</summary><div>
        ${named("Task", "task", facets.tasks)}${named("Model", "model", facets.models)}${named("Category", "category", facets.categories)}${named("Answer", "answer", facets.answers)}
        ${metrics.length > 2 && choice("Metric", "metric", metrics.map((name, at) => [at ? name : "", name]))}
        ${choice("Sort by", "sort", Object.entries(SORTS))}
        <label class="check"><input type="checkbox" checked=${Boolean(query.reverse)} onChange=${({ target }) => set({ reverse: target.checked ? 1 : "" })} /> reversed</label>
        <${kshot.OtherRun} runKey=${runKey} query=${query} path=${path} />
        ${query.other && choice("Flips", "flip", Object.entries(FLIPS))}
      </div></details>
    </form>`;
  };

  const Row = ({ row, at, of, link, current }) => html`<div role="listitem" aria-posinset=${at + 1} aria-setsize=${of}>
    <a class="row ${current ? "current" : ""}" href=${link} aria-current=${current ? "true" : null} tabindex=${current ? 0 : -1}>
      ${row ? html`<span class="first"><${kshot.Verdict} verdict=${row.verdict} short /><bdi class="one-line">${row.text || row.id}</bdi></span>
        <span class="second soft one-line">${row.flip && html`<b class="verdict ${row.flip === "won" ? "right" : "wrong"}">${row.flip}</b> `}<bdi>${row.answer || "–"}</bdi>${row.verdict !== "right" && row.target && html` <span aria-label="instead of">≠</span> <bdi>${row.target}</bdi>`} · <bdi>${row.id}</bdi></span>` : html`<span class="first soft">…</span>`}
    </a></div>`;

  /** The list of samples, and beside it (on a phone in its place) the one that is open. */
  kshot.Samples = ({ runKey, n = null, query }) => {
    const asked = Object.fromEntries(ASKED.filter((name) => query[name]).map((name) => [name, query[name]]));
    const list = useRows(runKey, asked);
    const facets = useFacets(runKey, query.metric);
    const [box, search] = [useRef(), useRef()];
    const [top, setTop] = useState(0);
    const [tall, setTall] = useState(600);
    const open = n !== null;
    const path = ["run", runKey, "samples"];
    const at = Math.min(Number(query.at) || 0, Math.max(list.matching - 1, 0));
    const whole = list.matching * HEIGHT;
    const scale = Math.max(1, (whole - tall) / (Math.min(whole, TALLEST) - tall || 1));
    const first = Math.max(0, Math.floor((top * scale) / HEIGHT) - MORE_ROWS);
    const last = Math.min(list.matching, Math.ceil((top * scale + tall) / HEIGHT) + MORE_ROWS);
    const set = (changes) => kshot.go(path, { ...query, ...changes, at: "" }, { replace: "q" in changes });
    const linkOf = (place) => kshot.link([...path, String(list.row(place)?.n ?? "")], { ...query, at: place });
    const show = (place) => {
      const { current } = box;
      const y = (place * HEIGHT) / scale;
      if (y < current.scrollTop || y + HEIGHT > current.scrollTop + current.clientHeight) current.scrollTop = y - current.clientHeight / 3;
    };
    const goTo = (place) => {
      if (place < 0 || place >= list.matching) return;
      show(place);
      list.want(Math.floor(place / PAGE));
      const row = list.row(place);
      if (open && !row) return;
      kshot.go(open ? [...path, String(row.n)] : path, { ...query, at: place }, { replace: true });
    };
    const onLink = (event) => event.target.closest?.("a, button, summary, select, input") && !event.target.closest(".row");
    const move = (by) => () => goTo(at + by);
    const arrow = (by) => (event) => (event.target.closest?.(".tokens, .sample") ? false : goTo(at + by));
    kshot.useKeys({
      j: move(1),
      k: move(-1),
      ArrowDown: arrow(1),
      ArrowUp: arrow(-1),
      "/": () => search.current?.focus(),
      Enter: (event) => (onLink(event) || open || !list.row(at) ? false : kshot.go([...path, String(list.row(at).n)], { ...query, at })),
      Escape: () => (open ? kshot.go(path, query) : false),
    });
    useEffect(() => {
      const wait = setTimeout(() => {
        for (let page = Math.floor(first / PAGE); page <= Math.floor(Math.max(last - 1, 0) / PAGE); page++) list.want(page);
      }, 30);
      return () => clearTimeout(wait);
    }, [list, first, last, list.matching]);
    useEffect(() => list.want(Math.floor(at / PAGE)), [list, at]);
    useLayoutEffect(() => {
      const watch = new ResizeObserver(() => setTall(box.current?.clientHeight || 600));
      watch.observe(box.current);
      return () => watch.disconnect();
    }, []);
    useLayoutEffect(() => {
      if (list.matching) show(at);
    }, [list, list.matching > 0, open, tall]);
    const { state, share, total, matching, error } = list;
    const status = error ? "" : state === "ready" ? (matching ? `${matching === total ? "" : `${count(matching)} of `}${count(total)} samples` : "no sample fits") : `${state} ${share ? `${Math.round(100 * share)} %` : "…"}`;
    const known = list.row(at)?.n === n ? at : undefined;
    const step = (place) => (known !== undefined && place >= 0 && place < matching && list.row(place) ? linkOf(place) : null);
    const one = Object.keys(asked).join() === "verdict" && kshot.VERDICTS[asked.verdict]?.word;
    const place = {
      text: known !== undefined && `${count(at + 1)} of ${count(matching)} ${one || ""}`,
      back: kshot.link(path, query),
      previous: step(at - 1),
      next: step(at + 1),
    };
    return html`<div class="samples ${open ? "open" : ""}">
      <section class="sample-list" aria-label="Samples">
        <h1 class="hidden">Samples of ${runKey}</h1>
        <${Filters} ...${{ runKey, query, set, search }} facets=${facets} path=${open ? [...path, String(n)] : path} />
        <div class="list-head"><span role="status" class="samples-count">${status}${facets.of > facets.total && html` <span class="soft">(${count(facets.total)} of ${count(facets.of)} are here)</span>`}</span>
          ${matching > 1 && html`<label class="labelled">Go to <input type="number" class="field" aria-label="Go to number" min="1" max=${matching} placeholder=${at + 1} onChange=${(event) => goTo(Math.min(Math.max(event.target.valueAsNumber || 1, 1), matching) - 1)} /></label>`}</div>
        ${state !== "ready" && html`<progress max="1" value=${share || null} aria-label=${state}></progress>`}
        <${kshot.Failure} error=${error} />
        <div class="sample-rows" role="list" aria-label="List of samples" tabindex="0" ref=${box} onScroll=${(event) => setTop(event.target.scrollTop)}>
          <div class="rows-space" role="presentation" style=${{ height: Math.min(whole, TALLEST) + "px" }}>
            <div class="rows" role="presentation" style=${{ transform: `translateY(${first * HEIGHT - top * scale + top}px)` }}>
              ${Array.from({ length: Math.max(last - first, 0) }, (_, i) => first + i).map((place) => html`<${Row} key=${place} row=${list.row(place)} at=${place} of=${matching} link=${linkOf(place)} current=${place === at && (!open || known === at)} />`)}
            </div></div>
          ${state === "ready" && !matching && !error && html`<div class="empty"><p>${total ? "No sample fits these filters." : "This run has no samples yet."}</p></div>`}
        </div>
      </section>
      ${open
        ? html`<${kshot.Sample} key="sample" runKey=${runKey} n=${n} query=${query} place=${place} />`
        : html`<div class="sample none-open empty"><p>Choose a sample: <kbd>j</kbd> <kbd>k</kbd> and <kbd>enter</kbd>, or a click.</p></div>`}
    </div>`;
  };

  /** A hook: what a list can be filtered by; asked for again until the index is there. */
  const useFacets = (runKey, metric) => {
    const [facets, setFacets] = useState({});
    useEffect(() => {
      let timer;
      const look = () => kshot.source.facets(runKey, metric).then(
        (found) => {
          setFacets(found);
          if (found.state === "indexing") timer = setTimeout(look, 500);
        },
        () => setFacets({}),
      );
      look();
      return () => clearTimeout(timer);
    }, [runKey, metric]);
    return facets;
  };
}
