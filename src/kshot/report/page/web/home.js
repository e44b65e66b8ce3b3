// Home: the table of runs. What is filtered, sorted and chosen stands in the address.
{
  const { html, useState, useEffect, useRef } = kshot;
  const PAGE = 100; // rows that are drawn at first; more follow as somebody scrolls
  const [FAST, SLOW] = [1500, 5000]; // milliseconds between two looks: while something runs, and else

  /** Name a model or a dataset by its end: hf:models/a/b is hf:b, a/planets.py:Planets is Planets. */
  const short = (name) => name.replace(/^(\w+:)?[^@#,]*\/(?=.)/, "$1").replace(/^\w+\.py:/, "");
  const running = (run) => run.state.startsWith("running");
  kshot.isRunning = running;

  /** What a running run has measured so far: the last task with a figure. */
  const soFar = ({ progress }) => {
    const task = (progress?.tasks || []).filter(({ value }) => value !== null).pop();
    return task ? { ...task, n: task.done } : null;
  };
  const headline = (run) => run.headline || soFar(run);

  const Names = ({ names }) => html`<div class="who one-line" title=${names.join("\n")}>${names.map(short).join(", ")}</div>`;

  kshot.State = ({ state }) => html`<span class="badge ${state.replace("?", "")}">${state}</span>`;

  /** How far a run is: a bar, the share, and how long the rest will take. */
  kshot.Progress = ({ progress, label }) => {
    const { done, total, seconds_left: left, step } = progress;
    const [made, all, what] = step ? [step.done, step.total, step.label + ": "] : [done, total, ""];
    return html`<progress max=${all || 1} value=${all ? made : undefined} aria-label=${label} />
      <small class="soft">${what}${all ? Math.floor((100 * made) / all) + " %" : kshot.count(made)}${left ? ` · ${kshot.duration(left)} left` : ""}</small>`;
  };

  kshot.Headline = ({ run }) => {
    const figure = headline(run);
    if (!figure) return run.why ? html`<small>${run.why}</small>` : null;
    const [value, interval] = kshot.figure(figure.value, figure.ci95);
    const more = run.figures > 1 ? `+${run.figures - 1} more` : run.headline ? "" : "so far";
    return html`<b>${value}</b><${kshot.Interval} ...${figure} /> <small>${interval}</small>
      <div class="one-line"><small>${[figure.metric, figure.task, more].filter(Boolean).join(" · ")}</small></div>`;
  };

  // `value`: what a column is sorted by; `down`: the largest first; `phone`: its label where there is no head
  const COLUMNS = [
    { id: "run", title: "Run", value: (run) => run.name },
    { id: "state", title: "State", value: (run) => run.state },
    {
      id: "headline", title: "Headline", down: true, cell: (run) => html`<${kshot.Headline} run=${run} />`, kind: "score",
      value: (run) => headline(run)?.value && (headline(run).higher_is_better === false ? -1 : 1) * headline(run).value,
    },
    { id: "n", title: "n", down: true, value: (run) => headline(run)?.n, phone: "n", cell: (run) => headline(run)?.n && kshot.count(headline(run).n), kind: "num" },
    { id: "models", title: "Models", value: (run) => run.models.join(), cell: (run) => html`<${Names} names=${run.models} />` },
    { id: "datasets", title: "Datasets", value: (run) => run.datasets.join(), cell: (run) => html`<${Names} names=${run.datasets} />` },
    {
      id: "failed", title: "Failed", down: true, value: (run) => run.failed, phone: "failed", kind: "num",
      cell: (run) => (run.failed ? html`<span class="verdict failed">${kshot.count(run.failed)}</span>` : run.failed === 0 ? html`<span class="soft">0</span>` : null),
    },
    { id: "cost", title: "Cost", down: true, value: (run) => run.cost_usd, cell: (run) => kshot.dollars(run.cost_usd), kind: "num" },
    { id: "took", title: "Took", down: true, value: (run) => run.seconds, phone: "took", cell: (run) => kshot.duration(run.seconds), kind: "num" },
    { id: "started", title: "Started", down: true, value: (run) => run.started, kind: "num",
      cell: (run) => html`<time datetime=${run.started} title=${kshot.moment(run.started)}>${kshot.ago(run.started)}</time>` },
  ];

  const sorted = (runs, { sort = "started", reverse }) => {
    const column = COLUMNS.find(({ id }) => id === sort) || COLUMNS[COLUMNS.length - 1];
    const way = (column.down ? -1 : 1) * (reverse ? -1 : 1);
    const compare = (a, b) => (a === b ? 0 : (a ?? null) === null ? 1 : (b ?? null) === null ? -1 : (a < b ? -1 : 1) * way);
    // figures of different metrics do not compare: those of one metric stand together
    const group = (run) => (column.id === "headline" ? headline(run)?.metric : null);
    return [...runs].sort((a, b) => (group(a) === group(b) ? compare(column.value(a), column.value(b)) : (group(a) ?? "~") < (group(b) ?? "~") ? -1 : 1));
  };

  const matching = (runs, { q = "", state, model, dataset }) => {
    const words = q.toLowerCase().split(/\s+/).filter(Boolean);
    return runs.filter((run) => {
      const text = [run.name, run.state, ...run.models, ...run.datasets, run.headline?.metric].join(" ").toLowerCase();
      return words.every((word) => text.includes(word)) && (!state || run.state === state) &&
        (!model || run.models.includes(model)) && (!dataset || run.datasets.includes(dataset));
    });
  };

  const Head = ({ query, columns, change }) => {
    const sort = query.sort || "started";
    const turn = (id) => change({ sort: id === "started" ? "" : id, reverse: sort === id && !query.reverse ? 1 : "" });
    return html`<thead><tr><th><span class="hidden">Choose</span></th>${columns.map(({ id, title, kind, down }) => {
      const falls = Boolean(down) !== Boolean(query.reverse);
      return html`<th scope="col" class=${kind === "num" ? "num" : ""} aria-sort=${sort === id ? (falls ? "descending" : "ascending") : undefined}>
        <button onClick=${() => turn(id)}>${title}${sort === id && html`<span aria-hidden="true"> ${falls ? "↓" : "↑"}</span>`}</button></th>`;
    })}</tr></thead>`;
  };

  const Row = ({ run, columns, name, chosen, choose }) => {
    const open = (event) => {
      if (!event.target.closest("a, input") && !String(getSelection())) kshot.go(["run", run.key]);
    };
    return html`<tr onClick=${open} data-key=${run.key}>
      <td><input type="checkbox" checked=${chosen} aria-label="Choose ${name} to compare" onChange=${() => choose(run.key)} /></td>
      <td class="title"><a class="name" href=${kshot.link(["run", run.key])} title=${run.name}>${name}</a></td>
      <td class="state"><${kshot.State} state=${run.state} />${running(run) && run.progress && html`<${kshot.Progress} progress=${run.progress} label="Progress of ${name}" />`}</td>
      ${columns.slice(2).map(({ kind = "", phone, cell }) => html`<td class=${kind} data-label=${phone}>${cell(run)}</td>`)}
    </tr>`;
  };

  const Choice = ({ label, all, values, value, change }) =>
    values.length > 1 || value
      ? html`<select class="field" aria-label=${label} value=${value || ""} onChange=${(event) => change(event.target.value)}>
          <option value="">${all}</option>${values.map((each) => html`<option value=${each}>${short(each)}</option>`)}
        </select>`
      : null;

  const Chosen = ({ chosen, nameOf, change }) => html`<div class="chosen" role="region" aria-label="Chosen runs">
    <span><b>${nameOf(chosen[0])}</b>${chosen[1] ? html` <span class="soft">is the baseline of</span> <b>${nameOf(chosen[1])}</b>` : html` <span class="soft">is chosen. Choose another run to compare it with.</span>`}</span>
    ${chosen[1] && html`<a class="button primary" href=${kshot.link(["compare", ...chosen])}>Compare</a>`}
    <button class="button quiet" onClick=${() => change({ chosen: "" })}>Clear</button>
  </div>`;

  const Nothing = ({ folders }) => html`<div class="empty">
    <p>There is no run in ${folders.join(", ") || "the folder"} yet. This makes one, and it appears here while it runs:</p>
    <pre>kshot run -m embedded -d ai2_arc:ARC-Easy</pre>
  </div>`;

  let drawn = PAGE; // kept, so that who comes back finds the page as long as it was
  let opened = null; // the run that somebody comes back from has the focus again

  kshot.Home = ({ query }) => {
    const live = kshot.source.live;
    const { value, error } = kshot.usePolled("runs", () => kshot.source.runs(), (found) => live && (found?.runs.some(running) ? FAST : SLOW));
    const [limit, setLimit] = useState(drawn);
    const [, tick] = useState(0);
    const body = useRef(), search = useRef(), end = useRef();
    const runs = value?.runs || [], folders = value?.folders || [];
    const shown = sorted(matching(runs, query), query);
    const columns = COLUMNS.filter(({ id, value }) => id !== "cost" || runs.some((run) => value(run) !== null));
    const change = (part) => kshot.go([], { ...query, ...part }, { replace: true });
    const chosen = (query.chosen || "").split(",").filter(Boolean);
    const choose = (key) => change({ chosen: (chosen.includes(key) ? chosen.filter((each) => each !== key) : [...chosen.slice(0, 1), key]).join() });
    const nameOf = (key) => {
      const name = runs.find((run) => run.key === key)?.name ?? key;
      return folders.length === 1 && name.startsWith(folders[0] + "/") ? name.slice(folders[0].length + 1) : name;
    };

    const rows = () => [...body.current.children];
    const focused = () => rows().indexOf(document.activeElement.closest?.("tr"));
    const focus = (at) => rows()[at]?.querySelector("a").focus();
    const move = (by) => focus(Math.max(0, Math.min(focused() + by, rows().length - 1)));
    const inList = (by) => focused() >= 0 && move(by);
    kshot.useKeys({
      j: () => move(1), k: () => move(-1), ArrowDown: () => inList(1), ArrowUp: () => inList(-1),
      x: () => focused() >= 0 && choose(rows()[focused()].dataset.key),
      "/": () => search.current?.focus(),
      Escape: () => document.activeElement === search.current && (query.q ? change({ q: "" }) : focus(0)),
    });
    useEffect(() => {
      const timer = setInterval(() => tick((count) => count + 1), 30000); // "2 min ago" grows
      rows().find((row) => row.dataset.key === opened)?.querySelector("a").focus({ preventScroll: true });
      const leave = () => ([, opened] = kshot.route().path);
      addEventListener("hashchange", leave);
      return () => {
        clearInterval(timer);
        removeEventListener("hashchange", leave);
      };
    }, []);
    useEffect(() => {
      if (!end.current) return;
      const grow = ([seen]) => seen.isIntersecting && setLimit((drawn = limit + PAGE));
      const observer = new IntersectionObserver(grow, { rootMargin: "600px" });
      observer.observe(end.current);
      return () => observer.disconnect();
    }, [limit, shown.length > limit]);

    const count = runs.filter(running).length;
    const words = shown.length < runs.length ? `${kshot.count(shown.length)} of ${kshot.count(runs.length)} runs` : `${kshot.count(runs.length)} ${runs.length === 1 ? "run" : "runs"}`;
    const list = (pick) => [...new Set(runs.flatMap(pick))].sort();
    return html`<div class="home">
      <div class="bar"><h1>Runs</h1>
        <p class="count" role="status">${value ? words + (count ? `, ${count} running` : "") : "Looking for runs…"}</p></div>
      <${kshot.Failure} error=${error} />
      ${runs.length > 0 && html`<div class="bar" role="search">
        <input class="field grow" type="search" aria-label="Search runs" placeholder="Search by name, model or dataset  ( / )" ref=${search} value=${query.q || ""} onInput=${(event) => change({ q: event.target.value })} />
        <${Choice} label="State" all="All states" values=${list((run) => run.state)} value=${query.state} change=${(state) => change({ state })} />
        <${Choice} label="Model" all="All models" values=${list((run) => run.models)} value=${query.model} change=${(model) => change({ model })} />
        <${Choice} label="Dataset" all="All datasets" values=${list((run) => run.datasets)} value=${query.dataset} change=${(dataset) => change({ dataset })} />
      </div>`}
      ${value && !runs.length && html`<${Nothing} folders=${folders} />`}
      <table class="runs data" hidden=${!shown.length}>
        <${Head} query=${query} columns=${columns} change=${change} />
        <tbody ref=${body}>${shown.slice(0, limit).map((run) => html`<${Row} key=${run.key} run=${run} columns=${columns} name=${nameOf(run.key)} chosen=${chosen.includes(run.key)} choose=${choose} />`)}</tbody>
      </table>
      ${shown.length > limit && html`<p class="loading" ref=${end}>More runs follow…</p>`}
      ${runs.length > 0 && !shown.length && html`<div class="empty"><p>No run matches.</p><button class="button" onClick=${() => kshot.go([], {})}>Clear the filters</button></div>`}
      ${chosen.length > 0 && html`<${Chosen} chosen=${chosen} nameOf=${nameOf} change=${change} />`}
    </div>`;
  };
}
