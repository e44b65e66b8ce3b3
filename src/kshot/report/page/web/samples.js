// The samples of a run: filters, and a list of any length of which only the visible rows are in the page.
"use strict";

{
  const { html, useState, useEffect, useLayoutEffect, useMemo, useRef, count } = kshot;

  const HEIGHT = 54;
  const PAGE = 100;
  const KEPT_PAGES = 60;
  const MORE_ROWS = 8;
  const TALLEST = 12e6; // browsers draw no element beyond some 17 million pixels
  const AGAIN = 3000;
  const MOST_ANSWERS = 30;
  const FILTERS = ["verdict", "task", "model", "category", "answer", "q", "flip"];
  const ASKED = [...FILTERS, "metric", "sort", "reverse", "other"];
  const pageOf = (at) => Math.floor(at / PAGE);

  /** The rows that match a query, fetched by pages as they are looked at. */
  const rowsOf = (runKey, asked, draw) => {
    const pages = new Map();
    let ended = false;
    const list = { state: "loading", share: 0, total: 0, matching: 0, row: (at) => pages.get(pageOf(at))?.[at % PAGE], end: () => (ended = true) };
    list.want = async (page) => {
      if (ended || pages.has(page)) return;
      pages.set(page, []);
      const again = (wait) => setTimeout(() => pages.delete(page) && list.want(page), wait);
      try {
        const { rows, ...found } = await kshot.source.samples(runKey, asked, page * PAGE, PAGE);
        pages.set(page, rows);
        Object.assign(list, found, { error: null });
        if (found.state !== "ready") again(300);
        if (pages.size > KEPT_PAGES) pages.delete(pages.keys().next().value);
      } catch (error) {
        Object.assign(list, { error, state: "ready" });
        if (kshot.source.live) again(AGAIN);
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

  /** A hook for the field of the search: what is typed is looked for soon after, unless somebody has gone elsewhere. */
  const useTyping = (query, path, search) => {
    const timer = useRef();
    /** Change the query of the list; what stands in the field goes along. */
    const set = (changes) => {
      const field = search.current;
      clearTimeout(timer.current);
      timer.current = 0;
      field.value = changes.q ?? field.value;
      kshot.go(path, { ...kshot.route().query, q: field.value, ...changes, at: "" }, { replace: "q" in changes });
    };
    useEffect(() => {
      if (!timer.current) search.current.value = query.q ?? "";
    }, [location.hash]);
    const type = ({ target }) => {
      const from = location.hash;
      clearTimeout(timer.current);
      timer.current = setTimeout(() => {
        if (location.hash === from) return set({ q: target.value });
        timer.current = 0;
        target.value = kshot.route().query.q ?? "";
      }, 300);
    };
    const press = (event) => {
      const { key, target } = event;
      if (key !== "Escape" && key !== "Enter") return;
      event.preventDefault();
      event.stopPropagation();
      if (key === "Enter" || !target.value) target.blur();
      set({ q: key === "Enter" ? target.value : "" });
    };
    return { set, type, press };
  };

  const Outcomes = ({ verdicts = {}, query, set }) => {
    const chosen = query.verdict?.split(",") ?? [];
    const toggle = (name) => set({ verdict: (chosen.includes(name) ? chosen.filter((each) => each !== name) : [...chosen, name]).join() });
    const narrowed = FILTERS.some((name) => name !== "verdict" && query[name]); // then the list has fewer of them
    return Object.entries(kshot.VERDICTS).map(([name, { sign, word }]) => (verdicts[name] > 0 || chosen.includes(name)) &&
      html`<button type="button" class="chip" aria-pressed=${chosen.includes(name)} onClick=${() => toggle(name)}>
        <span class="verdict ${name}" aria-hidden="true">${sign}</span> ${word}${" "}
        ${!narrowed && html`<span class="soft">${count(verdicts[name])}</span>`}</button>`);
  };

  /** Whether a list of the commonest answers helps: not where nearly every answer is another one, as with found passages. */
  const repeats = (answers = [], total) => answers[0]?.count > 1 && answers.reduce((sum, each) => sum + each.count, 0) * 10 > total;

  const Filters = ({ runKey, query, path, list, search, facets }) => {
    const { tasks, models, categories, answers, verdicts, metrics = [], total, of } = facets;
    const { set, type, press } = useTyping(query, list, search);
    const choice = (label, name, options) => html`<label class="labelled"><span>${label}</span>
      <select class="field" value=${query[name] ?? ""} onChange=${({ target }) => set({ [name]: target.value })}>
        ${options.map(([value, word = value]) => html`<option value=${value}>${word}</option>`)}</select></label>`;
    const named = (label, name, values = []) => {
      const options = values.map((each) => [each.name, `${each.name} (${count(each.count)})`]);
      const lacking = query[name] && !values.some((each) => each.name === query[name]) ? [[query[name]]] : [];
      return (values.length > 1 || query[name]) && choice(label, name, [["", "all"], ...options, ...lacking]);
    };
    const sorts = kshot.source.order ? [["", kshot.source.order], ["run", "order of the run"]] : [["", "order of the run"]];
    return html`<form class="filters" role="search" onSubmit=${(event) => event.preventDefault()}>
      <input ref=${search} type="search" class="field" aria-label="Search in samples" placeholder="Search in samples" title="key /"
        onInput=${type} onKeyDown=${press} />
      <div class="chips" role="group" aria-label="Outcome"><${Outcomes} ...${{ verdicts, query, set }} />
        ${FILTERS.some((name) => query[name]) &&
        html`<button type="button" class="chip clear" onClick=${() => set(Object.fromEntries(FILTERS.map((name) => [name, ""])))}>Clear all</button>`}</div>
      <details class="choices" open=${innerWidth > 900}><summary>Filter, sort, compare</summary><div>
        ${named("Task", "task", tasks)}${named("Model", "model", models)}${named("Category", "category", categories)}
        ${named(answers?.length < MOST_ANSWERS ? "Answer" : "Answer (the commonest)", "answer", repeats(answers, total) ? answers : [])}
        ${metrics.length > 2 && choice("Metric", "metric", metrics.map((name, at) => [at ? name : "", name]))}
        ${choice("Sort by", "sort", [...sorts, ["score"], ["id"], ["task"], ["category"], ["answer"]])}
        <label class="check"><input type="checkbox" checked=${Boolean(query.reverse)} onChange=${({ target }) => set({ reverse: target.checked ? 1 : "" })} />
          ${" "}reversed</label>
        <${kshot.OtherRun} ...${{ runKey, query, path }} />
        ${query.other && choice("Flips", "flip", [["", "all"], ["flipped"], ["won"], ["lost"]])}</div></details>
      ${of > total && html`<span class="soft">${count(total)} of the ${count(of)} samples are here</span>`}
    </form>`;
  };

  /** A row of the list; `whose` are the names that differ between rows. */
  const Row = ({ row, at, of, link, current, whose, onClick }) => html`<div role="listitem" aria-posinset=${at + 1} aria-setsize=${of} onClick=${onClick}>
    <a class="row ${current ? "current" : ""}" href=${link} aria-current=${current ? "true" : null} tabindex=${current ? 0 : -1}>${row
      ? html`<span class="first"><${kshot.Verdict} verdict=${row.verdict} short /><bdi class="one-line">${row.text || row.id}</bdi></span>
        <span class="second soft"><span class="one-line">${row.flip && html`<b>${row.flip}</b> · `}<bdi>${row.answer || "–"}</bdi>
          ${row.answer && row.verdict !== "right" && row.target && html` ≠ <bdi>${row.target}</bdi>`}</span>
          <bdi class="one-line">${whose.map((name) => row[name]).join(" · ")}</bdi></span>`
      : "…"}</a></div>`;

  /** A hook: which rows are in view. Those of a list that is too long for a browser move faster than it is scrolled. */
  const useView = (matching) => {
    const box = useRef();
    const [top, setTop] = useState(0);
    const [tall, setTall] = useState(600);
    useLayoutEffect(() => {
      const watch = new ResizeObserver(() => setTall(box.current?.clientHeight || 600));
      watch.observe(box.current);
      return () => watch.disconnect();
    }, []);
    const whole = matching * HEIGHT;
    const height = Math.min(whole, TALLEST);
    const scale = Math.max(1, (whole - tall) / (height - tall || 1));
    const first = Math.max(0, Math.floor((top * scale) / HEIGHT) - MORE_ROWS);
    const last = Math.min(matching, Math.ceil((top * scale + tall) / HEIGHT) + MORE_ROWS);
    const show = (place) => {
      const { scrollTop, clientHeight } = box.current;
      const y = (place * HEIGHT) / scale;
      if (y < scrollTop || y + HEIGHT > scrollTop + clientHeight) box.current.scrollTop = y - clientHeight / 3;
    };
    return { box, tall, height, first, last, show, shift: first * HEIGHT - top * scale + top, onScroll: ({ target }) => setTop(target.scrollTop) };
  };

  /** How many samples match, or how far the search is; and a field to go to one of them. */
  const Head = ({ list: { state, share, total, matching, error }, at, goTo }) => {
    const ready = state === "ready";
    const found = `${matching < total ? `${count(matching)} of ` : ""}${count(total)} samples`;
    const told = !ready ? `${state} ${share ? `${Math.round(100 * share)} %` : "…"}` : matching ? found : !error && "No samples match";
    const go = ({ target }) => goTo(Math.min(Math.max(target.valueAsNumber || 1, 1), matching) - 1);
    return html`<div class="list-head">
        <span role="status" class="samples-count">${told}</span>
        ${matching > 1 && html`<label class="labelled">Go to${" "}
          <input type="number" class="field" aria-label="Go to number" min="1" max=${matching} placeholder=${at + 1} onChange=${go} /></label>`}</div>
      ${!ready && html`<progress max="1" value=${share || null} aria-label=${state}></progress>`}
      <${kshot.Failure} error=${error} />`;
  };

  /** The list of samples, and beside it (on a phone in its place) the one that is open. */
  kshot.Samples = ({ runKey, n: given, query }) => {
    const n = Number.isSafeInteger(given) ? given : null; // a link may say anything
    const asked = Object.fromEntries(ASKED.filter((name) => query[name]).map((name) => [name, query[name]]));
    const [list, busy] = useRows(runKey, asked);
    const { value: facets = {} } = kshot.useFacets(runKey, query.metric);
    const [search, follow] = [useRef(), useRef()];
    const { matching } = list;
    const view = useView(matching);
    const open = n !== null;
    const path = ["run", runKey, "samples"];
    const at = Math.max(0, Math.min(Number(query.at ?? n) || 0, matching - 1));
    const known = list.row(at)?.n === n;
    const pathOf = (place) => [...path, String(list.row(place).n)];
    const linkOf = (place) => list.row(place) && kshot.link(pathOf(place), { ...query, at: place });
    /** Make a row the current one; the link to this list says so, and who comes back finds it. */
    const goTo = (place) => {
      if (place < 0 || place >= matching) return;
      view.show(place);
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
      const places = [view.first, view.last - 1, at, at + 1].filter((place) => place >= 0 && place < matching);
      const wait = setTimeout(() => places.forEach((place) => list.want(pageOf(place))), 30);
      return () => clearTimeout(wait);
    }, [list, view.first, view.last, at]);
    useEffect(() => {
      if (!open || known || !list.row(at)) return; // a link that was written elsewhere does not say which row it is
      const found = ({ place }) => {
        const now = kshot.route();
        const here = now.path.slice(0, 3).join("/") === path.join("/") && Number(now.path[3]) === n; // the reader may have gone on
        if (Number.isInteger(place) && here) kshot.go([...path, String(n)], { ...now.query, at: place }, { replace: true });
      };
      kshot.source.samples(runKey, { ...asked, find: n }, 0, 1).then(found, () => {});
    }, [list, n, known, !list.row(at)]);
    useLayoutEffect(() => view.show(at), [list, matching > 0, open, view.tall, known]);
    useLayoutEffect(() => {
      const row = follow.current && view.box.current.querySelector(".current");
      if (!row) return;
      row.focus({ preventScroll: true }); // who goes through the list by keys has the focus there
      follow.current = false;
    });
    const only = Object.keys(asked).join() === "verdict" && kshot.VERDICTS[asked.verdict]?.word;
    const place = {
      text: known && `${count(at + 1)} of ${count(matching)} ${only || ""}`,
      back: kshot.link(path, query),
      previous: known && linkOf(at - 1),
      next: known && linkOf(at + 1),
    };
    const whose = ["id", facets.tasks?.length > 1 && "task", facets.models?.length > 1 && "model"].filter(Boolean);
    const rows = Array.from({ length: Math.max(view.last - view.first, 0) }, (_, i) => view.first + i);
    return html`<div class="samples ${open ? "open" : ""}">
      <h1 class="hidden">Samples of ${runKey}</h1><section class="sample-list" aria-label="Samples">
        <${Filters} ...${{ runKey, query, search, facets }} list=${path} path=${open ? [...path, String(n)] : path} />
        <${Head} ...${{ list, at, goTo }} />
        <div class="sample-rows" role="list" aria-label="List of samples" aria-busy=${busy} tabindex="0" ref=${view.box} onScroll=${view.onScroll}>
          <div class="rows-space" role="presentation" style=${{ height: view.height + "px" }}>
            <div role="presentation" style=${{ transform: `translateY(${view.shift}px)` }}>
            ${rows.map((place) => html`<${Row} key=${place} row=${list.row(place)} at=${place} of=${matching} link=${linkOf(place)}
              current=${place === at && (!open || known)} whose=${whose} onClick=${() => open || goTo(place)} />`)}
          </div></div>
        </div>
      </section>
      ${open
        ? html`<${kshot.Sample} ...${{ runKey, n, query, place }} />`
        : html`<div class="sample none-open empty">
          <p>Choose a sample: <kbd>j</kbd> <kbd>k</kbd> and <kbd>enter</kbd>, or a click. <kbd>/</kbd> searches.</p></div>`}
    </div>`;
  };
}
