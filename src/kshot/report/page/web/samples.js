// The samples of a run: filters, and a list of any length of which only the visible rows are in the page.
"use strict";

{
  const { html, useState, useEffect, useLayoutEffect, useMemo, useRef, count } = kshot;

  const HEIGHT = 54;
  const PAGE = 100;
  const KEPT_PAGES = 60;
  const MORE_ROWS = 8;
  const TALLEST = 12e6; // browsers draw no element beyond some 17 million pixels
  const FILTERS = ["verdict", "task", "model", "category", "answer", "q", "flip"];
  const ASKED = [...FILTERS, "metric", "sort", "reverse", "other"];
  const SORTS = [["", "order of the run"], ...["score", "id", "task", "category", "answer"].map((name) => [name, name])];
  const FLIPS = [["", "all"], ["flipped", "flipped"], ["won", "won"], ["lost", "lost"]];
  const pageOf = (at) => Math.floor(at / PAGE);

  /** The rows that fit a query, fetched by pages as they are looked at. */
  const rowsOf = (runKey, asked, draw) => {
    const pages = new Map();
    let ended = false;
    const list = { state: "loading", share: 0, total: 0, matching: 0, row: (at) => pages.get(pageOf(at))?.[at % PAGE], end: () => (ended = true) };
    list.want = async (page) => {
      if (ended || pages.has(page)) return;
      pages.set(page, []);
      try {
        const { rows, ...found } = await kshot.source.samples(runKey, asked, page * PAGE, PAGE);
        pages.set(page, rows);
        Object.assign(list, found);
        if (found.state !== "ready") setTimeout(() => pages.delete(page) && list.want(page), 300);
        if (pages.size > KEPT_PAGES) pages.delete(pages.keys().next().value);
      } catch (error) {
        Object.assign(list, { error, state: "ready" });
      }
      if (!ended) draw({});
    };
    list.want(0);
    return list;
  };

  /** A hook: the list of a query. While a new one is on its way, the last one stays. */
  const useRows = (runKey, asked) => {
    const [, draw] = useState();
    const last = useRef();
    const list = useMemo(() => rowsOf(runKey, asked, draw), [runKey, JSON.stringify(asked)]);
    useEffect(() => list.end, [list]);
    if (list.state !== "loading" || !last.current) last.current = list;
    return [last.current, list.state === "loading"];
  };

  const Filters = ({ runKey, query, set, path, search }) => {
    const { value = {} } = kshot.usePolled(`facets ${runKey} ${query.metric}`, () => kshot.source.facets(runKey, query.metric), (found) => (found?.state === "indexing" ? 500 : 0));
    const { verdicts = {}, metrics = [], total, of } = value;
    const timer = useRef();
    useEffect(() => {
      if (document.activeElement !== search.current) search.current.value = query.q ?? "";
    }, [query.q]);
    const type = ({ target }) => {
      clearTimeout(timer.current);
      timer.current = setTimeout(() => set({ q: target.value }), 300);
    };
    const leave = (event) => {
      if (event.key !== "Escape" && event.key !== "Enter") return;
      event.preventDefault();
      event.stopPropagation();
      event.target.blur();
    };
    const chosen = query.verdict?.split(",") ?? [];
    const toggle = (name) => set({ verdict: (chosen.includes(name) ? chosen.filter((each) => each !== name) : [...chosen, name]).join() });
    const choice = (label, name, options) => html`<label class="labelled"><span>${label}</span>
      <select class="field" value=${query[name] ?? ""} onChange=${({ target }) => set({ [name]: target.value })}>${options.map(([value, word]) => html`<option value=${value}>${word}</option>`)}</select></label>`;
    const named = (label, name, values = []) =>
      (values.length > 1 || query[name]) && choice(label, name, [["", "all"], ...values.map((each) => [each.name, `${each.name} (${count(each.count)})`])]);
    const given = FILTERS.filter((name) => query[name]);
    return html`<form class="filters" role="search" onSubmit=${(event) => event.preventDefault()}>
      <input ref=${search} type="search" class="field" aria-label="Search in samples" placeholder="Search in samples" title="key /" onInput=${type} onKeyDown=${leave} />
      <div class="chips" role="group" aria-label="Outcome">${Object.entries(kshot.VERDICTS).map(([name, { sign, word }]) => (verdicts[name] > 0 || chosen.includes(name)) &&
        html`<button type="button" class="chip" aria-pressed=${chosen.includes(name)} onClick=${() => toggle(name)}><span class="verdict ${name}" aria-hidden="true">${sign}</span> ${word} <span class="soft">${count(verdicts[name])}</span></button>`)}
        ${given.length > 0 && html`<button type="button" class="chip clear" onClick=${() => set(Object.fromEntries(given.map((name) => [name, ""])))}>Clear all</button>`}</div>
      <details class="choices" open=${innerWidth > 900}><summary>Filter, sort, compare</summary><div>
        ${named("Task", "task", value.tasks)}${named("Model", "model", value.models)}${named("Category", "category", value.categories)}${named("Answer", "answer", value.answers)}
        ${metrics.length > 2 && choice("Metric", "metric", metrics.map((name, at) => [at ? name : "", name]))}${choice("Sort by", "sort", SORTS)}
        <label class="check"><input type="checkbox" checked=${Boolean(query.reverse)} onChange=${({ target }) => set({ reverse: target.checked ? 1 : "" })} /> reversed</label>
        <${kshot.OtherRun} ...${{ runKey, query, path }} />${query.other && choice("Flips", "flip", FLIPS)}</div></details>
      ${of > total && html`<span class="soft">${count(total)} of the ${count(of)} samples are here</span>`}
    </form>`;
  };

  const Row = ({ row, at, of, link, current, onClick }) => html`<div role="listitem" aria-posinset=${at + 1} aria-setsize=${of} onClick=${onClick}>
    <a class="row ${current ? "current" : ""}" href=${link} aria-current=${current ? "true" : null} tabindex=${current ? 0 : -1}>${row
      ? html`<span class="first"><${kshot.Verdict} verdict=${row.verdict} short /><bdi class="one-line">${row.text || row.id}</bdi></span>
        <span class="second soft one-line">${row.flip && html`<b>${row.flip}</b> · `}<bdi>${row.answer || "–"}</bdi>${row.verdict !== "right" && row.target && html` ≠ <bdi>${row.target}</bdi>`} · <bdi>${row.id}</bdi></span>`
      : "…"}</a></div>`;

  /** The list of samples, and beside it (on a phone in its place) the one that is open. */
  kshot.Samples = ({ runKey, n = null, query }) => {
    const asked = Object.fromEntries(ASKED.filter((name) => query[name]).map((name) => [name, query[name]]));
    const [list, busy] = useRows(runKey, asked);
    const { state, share, total, matching, error } = list;
    const [box, search, follow] = [useRef(), useRef(), useRef()];
    const [top, setTop] = useState(0);
    const [tall, setTall] = useState(600);
    const open = n !== null;
    const path = ["run", runKey, "samples"];
    const at = Math.max(0, Math.min(Number(query.at ?? n) || 0, matching - 1));
    const whole = matching * HEIGHT;
    const height = Math.min(whole, TALLEST);
    const scale = Math.max(1, (whole - tall) / (height - tall || 1));
    const first = Math.max(0, Math.floor((top * scale) / HEIGHT) - MORE_ROWS);
    const last = Math.min(matching, Math.ceil((top * scale + tall) / HEIGHT) + MORE_ROWS);
    const set = (changes) => kshot.go(path, { ...query, ...changes, at: "" }, { replace: "q" in changes });
    const pathOf = (place) => [...path, String(list.row(place).n)];
    const linkOf = (place) => list.row(place) && kshot.link(pathOf(place), { ...query, at: place });
    const show = (place) => {
      const { scrollTop, clientHeight } = box.current;
      const y = (place * HEIGHT) / scale;
      if (y < scrollTop || y + HEIGHT > scrollTop + clientHeight) box.current.scrollTop = y - clientHeight / 3;
    };
    /** Make a row the current one; the link to this list says so, and who comes back finds it. */
    const goTo = (place) => {
      if (place < 0 || place >= matching) return;
      show(place);
      if (!open || list.row(place)) kshot.go(open ? pathOf(place) : path, { ...query, at: place }, { replace: true });
    };
    const step = (by) => {
      follow.current = !open;
      goTo(at + by);
    };
    const arrow = (by) => ({ target }) => (target.closest(".sample") ? false : step(by));
    kshot.useKeys({
      j: () => step(1),
      k: () => step(-1),
      ArrowDown: arrow(1),
      ArrowUp: arrow(-1),
      "/": () => search.current.focus(),
      Enter: ({ target }) => (open || !list.row(at) || target.closest("a, button, summary") ? false : kshot.go(pathOf(at), { ...query, at })),
      Escape: () => (open ? kshot.go(path, query) : false),
    });
    useEffect(() => {
      const wait = setTimeout(() => [first, last - 1, at, at + 1].forEach((place) => place >= 0 && place < matching && list.want(pageOf(place))), 30);
      return () => clearTimeout(wait);
    }, [list, first, last, at]);
    useLayoutEffect(() => {
      const watch = new ResizeObserver(() => setTall(box.current?.clientHeight || 600));
      watch.observe(box.current);
      return () => watch.disconnect();
    }, []);
    useLayoutEffect(() => show(at), [list, matching > 0, open, tall]);
    useLayoutEffect(() => {
      const row = follow.current && box.current.querySelector(".current");
      if (!row) return;
      row.focus({ preventScroll: true }); // who goes through the list by keys has the focus there
      follow.current = false;
    });
    const known = list.row(at)?.n === n;
    const only = Object.keys(asked).join() === "verdict" && kshot.VERDICTS[asked.verdict]?.word;
    const place = {
      text: known && `${count(at + 1)} of ${count(matching)} ${only || ""}`,
      back: kshot.link(path, query),
      previous: known && linkOf(at - 1),
      next: known && linkOf(at + 1),
    };
    const ready = state === "ready";
    return html`<div class="samples ${open ? "open" : ""}">
      <h1 class="hidden">Samples of ${runKey}</h1><section class="sample-list" aria-label="Samples">
        <${Filters} ...${{ runKey, query, set, search }} path=${open ? [...path, String(n)] : path} />
        <div class="list-head"><span role="status" class="samples-count">${!ready ? `${state} ${share ? `${Math.round(100 * share)} %` : "…"}` : !matching ? "no sample fits" : matching === total ? `${count(total)} samples` : `${count(matching)} of ${count(total)} samples`}</span>
          ${matching > 1 && html`<label class="labelled">Go to <input type="number" class="field" aria-label="Go to number" min="1" max=${matching} placeholder=${at + 1} onChange=${({ target }) => goTo(Math.min(Math.max(target.valueAsNumber || 1, 1), matching) - 1)} /></label>`}</div>
        ${!ready && html`<progress max="1" value=${share || null} aria-label=${state}></progress>`}
        <${kshot.Failure} error=${error} />
        <div class="sample-rows" role="list" aria-label="List of samples" aria-busy=${busy} tabindex="0" ref=${box} onScroll=${({ target }) => setTop(target.scrollTop)}>
          <div class="rows-space" role="presentation" style=${{ height: height + "px" }}><div role="presentation" style=${{ transform: `translateY(${first * HEIGHT - top * scale + top}px)` }}>
            ${Array.from({ length: Math.max(last - first, 0) }, (_, i) => first + i).map((place) => html`<${Row} key=${place} row=${list.row(place)} at=${place} of=${matching} link=${linkOf(place)} current=${place === at && (!open || known)} onClick=${() => open || goTo(place)} />`)}
          </div></div>
        </div>
      </section>
      ${open
        ? html`<${kshot.Sample} ...${{ runKey, n, query, place }} />`
        : html`<div class="sample none-open empty"><p>Choose a sample: <kbd>j</kbd> <kbd>k</kbd> and <kbd>enter</kbd>, or a click.</p></div>`}
    </div>`;
  };
}
