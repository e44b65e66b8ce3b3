// Home: the table of runs. What is filtered, sorted and chosen stands in the address.
{
  const { html, useState, useEffect, useRef, count, duration, link, go, listen } = kshot;
  const PAGE = 100; // rows that are drawn at first; more follow as somebody scrolls

  const isRunning = (kshot.isRunning = (run) => run.state.startsWith("running"));

  /** Name a model or a dataset by its end: hf:models/a/b is hf:b, a/planets.py:Planets is Planets. */
  const short = (name) => name.replace(/^(\w+:)?[^@#,]*\/(?=.)/, "$1").replace(/^\w+\.py:/, "");

  /** The figure that stands for a run; of one that runs, that of its last task so far. */
  const headline = ({ headline, progress }) => {
    const task = progress?.tasks?.filter(({ value }) => value !== null).pop();
    return headline || (task ? { ...task, n: task.done, so: " so far" } : {});
  };

  kshot.State = ({ state }) => html`<span class="badge ${state.replace("?", "")}">${state}</span>`;

  /** How far a run is: a bar, the share, and how long the rest will take. */
  kshot.Progress = ({ run, label }) => {
    const { done, total, seconds_left: left } = run.progress;
    return html`<progress max=${total || 1} value=${total ? done : undefined} aria-label=${label} />
      <small class="soft">${total ? Math.floor((100 * done) / total) + " %" : count(done)}${left && isRunning(run) ? ` · ${duration(left)} left` : ""}</small>`;
  };

  kshot.Headline = ({ run }) => {
    const figure = headline(run), more = run.figures - 1;
    const why = run.why && html`<div class="one-line" title=${run.why}><small>${run.why}</small></div>`;
    if (!figure.metric) return why;
    const [value, ...interval] = kshot.figure(figure);
    const marked = figure.mark && html`<div class="one-line" title=${figure.marked}><small>${figure.mark} ${figure.marked}</small></div>`;
    return html`<b>${value}</b><${kshot.Interval} ...${figure} /><small>${interval.join("–")}</small>
      ${more > 0 && html` <small title="${more} more tasks or models">+${more}</small>`}
      <div class="one-line" title=${figure.task}><small>${figure.metric}${figure.so} · ${figure.task}</small></div>${marked}${why}`;
  };

  /** A column of names. */
  const names = (of) => {
    const value = (run) => run[of].map(short).join(", ");
    return { kind: "who", value, cell: (run) => html`<div title=${run[of].join(", ")}>${value(run)}</div>` };
  };

  const COLUMNS = [
    { title: "Run", value: (run) => run.name },
    { title: "State", value: (run) => run.state },
    {
      title: "Headline", kind: "score", cell: (run) => html`<${kshot.Headline} run=${run} />`,
      value: (run) => (headline(run).higher_is_better === false ? -headline(run).value : headline(run).value),
    },
    { title: "n", kind: "num", value: (run) => headline(run).n },
    { title: "Models", ...names("models") },
    { title: "Datasets", ...names("datasets") },
    { title: "Failed", kind: "num", rare: true, value: (run) => run.failed, cell: ({ failed }) => failed > 0 && html`<b class="verdict failed">${count(failed)}</b>` },
    { title: "Cost", kind: "num", rare: true, value: (run) => run.cost_usd, cell: (run) => kshot.dollars(run.cost_usd) },
    { title: "Took", kind: "num", value: (run) => run.seconds, cell: (run) => duration(run.seconds) },
    { title: "Started", kind: "num", value: (run) => run.started, cell: (run) => html`<${kshot.Moment} at=${run.started} />` },
  ];
  const USUAL = "Started";
  /** Numbers are sorted with the largest first, words from a to z. */
  const falls = ({ kind }, reverse) => (kind === "num" || kind === "score") !== Boolean(reverse);

  const sorted = (runs, { sort = USUAL, reverse }) => {
    const column = COLUMNS.find(({ title }) => title === sort) || COLUMNS[0];
    const by = (value, down) => (a, b) => {
      const [x, y] = [value(a) ?? "", value(b) ?? ""];
      return x === y ? 0 : x === "" ? 1 : y === "" ? -1 : x < y === down ? 1 : -1; // what is not known comes last
    };
    runs.sort(by(column.value, falls(column, reverse)));
    // figures of different metrics do not compare: those of one metric stand together
    return column.kind === "score" ? runs.sort(by((run) => headline(run).metric, false)) : runs;
  };

  const FILTERS = { state: (run) => [run.state], model: (run) => run.models, dataset: (run) => run.datasets };

  const matching = (runs, query) => {
    const words = (query.q || "").toLowerCase().split(/\s+/);
    return runs.filter((run) => {
      const text = [run.name, run.state, run.models, run.datasets, run.headline?.metric].join().toLowerCase();
      return words.every((word) => text.includes(word)) && Object.keys(FILTERS).every((name) => !query[name] || FILTERS[name](run).includes(query[name]));
    });
  };

  const Head = ({ query: { sort = USUAL, reverse }, columns, change }) => html`<thead><tr><th><span class="hidden">Choose</span></th>
    ${columns.map((column) => {
      const { title, kind } = column, now = sort === title, down = falls(column, reverse);
      const turn = () => change({ sort: title === USUAL ? "" : title, reverse: now && !reverse ? 1 : "" });
      return html`<th scope="col" class=${kind} aria-sort=${now ? (down ? "descending" : "ascending") : undefined}>
        <button onClick=${turn}>${title}${now && html`<span aria-hidden="true"> ${down ? "↓" : "↑"}</span>`}</button></th>`;
    })}</tr></thead>`;

  const Row = ({ run, columns, name, chosen, choose }) => {
    const open = ({ target }) => target.closest("a, input") || String(getSelection()) || go(["run", run.key]);
    const cell = ({ kind, title, value, cell = (run) => value(run) && count(value(run)) }) => html`<td class=${kind} data-label=${title}>${cell(run)}</td>`;
    return html`<tr onClick=${open} data-key=${run.key}>
      <td><input type="checkbox" checked=${chosen} aria-label="Choose ${name} to compare" onChange=${() => choose(run.key)} /></td>
      <td class="title"><a class="name" href=${link(["run", run.key])} title=${run.name}>${name}</a></td>
      <td class="state"><${kshot.State} state=${run.state} />${run.progress && html`<${kshot.Progress} run=${run} label="Progress of ${name}" />`}</td>
      ${columns.slice(2).map(cell)}
    </tr>`;
  };

  /** A filter, where there is something to choose from. */
  const Choice = ({ name, runs, chosen = "", filter }) => {
    const all = [...new Set(runs.flatMap(FILTERS[name]))].sort();
    return (all.length > 1 || chosen) && html`<select class="field" aria-label="Filter by ${name}" value=${chosen} onChange=${({ target }) => filter({ [name]: target.value })}>
      <option value="">All ${name}s</option>${all.map((each) => html`<option value=${each}>${short(each)}</option>`)}
    </select>`;
  };

  const Chosen = ({ chosen, nameOf, change }) => html`<div class="chosen" role="region" aria-label="Chosen runs">
    <span><b>${nameOf(chosen[1] || chosen[0])}</b> <span class="soft">${chosen[1] ? "against" : "is the baseline. Choose a run to compare with it."}</span> <b>${chosen[1] && nameOf(chosen[0])}</b></span>
    ${chosen[1] && html`<a class="button primary" href=${link(["compare", ...chosen])}>Compare</a>`}
    <button class="button quiet" onClick=${() => change({ chosen: "" })}>Clear</button>
  </div>`;

  const Nothing = ({ folders }) => html`<div class="empty">
    <p>There is no run in ${folders.join(", ")} yet. This makes one, and it appears here while it runs:</p>
    <pre>kshot run --out ${folders[0]}/first</pre>
  </div>`;

  let drawn = PAGE; // kept, so that who comes back finds the page as long as it was
  let opened; // the run that somebody comes back from has the focus again

  /** A hook: keys move the focus from row to row; `clear` empties the search and says whether there was something in it. */
  const useRowKeys = (body, search, choose, clear) => {
    const rows = () => [...body.current.children];
    const focused = () => rows().indexOf(document.activeElement.closest("tr"));
    const focus = (row, options) => row?.querySelector("a").focus(options);
    const move = (by) => () => focus(rows()[Math.max(0, Math.min(focused() + by, rows().length - 1))]);
    const inList = (act) => () => focused() >= 0 && act();
    kshot.useKeys({
      j: move(1), k: move(-1), ArrowDown: inList(move(1)), ArrowUp: inList(move(-1)),
      x: inList(() => choose(rows()[focused()].dataset.key)),
      "/": () => search.current?.focus(),
      Escape: () => document.activeElement === search.current && (clear() || focus(rows()[0])),
    });
    useEffect(() => {
      focus(rows().find((row) => row.dataset.key === opened), { preventScroll: true });
      return () => ([, opened] = kshot.route().path); // where somebody goes from here
    }, []);
  };

  kshot.Home = ({ query }) => {
    const { live } = kshot.source;
    const { value, error } = kshot.usePolled("runs", () => kshot.source.runs(), (now) => live && (now?.runs.some(isRunning) ? 1500 : 5000));
    const [limit, setLimit] = useState(drawn);
    const [, tick] = useState();
    const body = useRef(), search = useRef();
    const { runs = [], folders = [] } = value || {};
    const shown = sorted(matching(runs, query), query);
    const columns = COLUMNS.filter(({ rare, value }) => !rare || runs.some(value));
    const change = (part) => go([], { ...query, ...part }, { replace: true });
    const filter = (part) => {
      change(part);
      setLimit((drawn = PAGE));
      scrollTo(0, 0);
    };
    const chosen = (query.chosen || "").split(",").filter(Boolean);
    const choose = (key) => change({ chosen: (chosen.includes(key) ? chosen.filter((each) => each !== key) : [...chosen.slice(0, 1), key]).join() });
    const nameOf = (key) => {
      const name = runs.find((run) => run.key === key)?.name ?? key;
      return folders.length === 1 && name.startsWith(folders[0] + "/") ? name.slice(folders[0].length + 1) : name;
    };
    useRowKeys(body, search, choose, () => query.q && (filter({ q: "" }), true));
    useEffect(() => {
      const timer = setInterval(() => tick({}), 30000); // "2 min ago" grows
      return () => clearInterval(timer);
    }, []);
    const grow = () => limit < shown.length && body.current.getBoundingClientRect().bottom < 2 * innerHeight && setLimit((drawn = limit + PAGE));
    useEffect(() => listen("scroll", grow), [limit, shown.length]);

    const working = runs.filter(isRunning).length;
    const some = shown.length < runs.length && count(shown.length) + " of ", words = runs.length === 1 ? " run" : " runs";
    return html`<div class="home">
      <div class="bar"><h1>Runs</h1>${runs.length > 1 && !chosen.length && html`<p class="soft">Choose two to compare them.</p>`}<p class="count" role="status">${value ? [some, count(runs.length), words, working > 0 && `, ${working} running`] : "Looking for runs…"}</p></div>
      <${kshot.Failure} error=${error} />
      ${runs.length > 0 && html`<div class="bar" role="search">
        <input class="field grow" type="search" aria-label="Search runs" placeholder="Search by name, model or dataset" ref=${search} value=${query.q || ""} onInput=${({ target }) => filter({ q: target.value })} />
        ${Object.keys(FILTERS).map((name) => html`<${Choice} name=${name} runs=${runs} chosen=${query[name]} filter=${filter} />`)}
      </div>`}
      ${value && !runs.length && html`<${Nothing} folders=${folders} />`}
      <table class="runs data" hidden=${!shown.length}>
        <${Head} query=${query} columns=${columns} change=${filter} />
        <tbody ref=${body}>${shown.slice(0, limit).map((run) => html`<${Row} key=${run.key} run=${run} columns=${columns} name=${nameOf(run.key)} chosen=${chosen.includes(run.key)} choose=${choose} />`)}</tbody>
      </table>
      ${runs.length > 0 && !shown.length && html`<div class="empty"><p>No run matches.</p><button class="button" onClick=${() => go([])}>Clear the filters</button></div>`}
      ${chosen.length > 0 && html`<${Chosen} chosen=${chosen} nameOf=${nameOf} change=${change} />`}
    </div>`;
  };
}
