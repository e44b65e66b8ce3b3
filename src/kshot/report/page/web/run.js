// The page of one run: what it is, how far it is, and the sections that Python made.
{
  const { html, useState, useEffect, count, link, usePolled, Failure } = kshot;

  /** The right, wrong and failed samples: a bar of their shares, and links to them. */
  const Counts = ({ runKey }) => {
    const { value, error } = kshot.useFacets(runKey);
    if (error) return html`<${Failure} error=${error} />`;
    if (value?.state !== "ready") return html`<p class="loading" role="status">Reading the samples… ${value?.share ? Math.floor(100 * value.share) + " %" : ""}</p>`;
    const { verdicts, total } = value;
    const kinds = Object.keys(kshot.VERDICTS).filter((name) => verdicts[name]);
    const to = (verdict) => link(["run", runKey, "samples"], { verdict });
    let from = 0;
    return html`<svg class="share" viewBox="0 0 ${total} 1" preserveAspectRatio="none" aria-hidden="true">
        ${kinds.map((name) => html`<rect class=${name} x=${(from += verdicts[name]) - verdicts[name]} width=${verdicts[name]} height="1" />`)}
      </svg>
      <nav class="chips" aria-label="Samples"><a class="button primary" href=${to()}>All ${count(total)} samples</a>
        ${kinds.map((name) => html`<a class="button" href=${to(name)}><${kshot.Verdict} verdict=${name} /> ${count(verdicts[name])}</a>`)}</nav>`;
  };

  const Task = ({ task: { task, model, total, state, done, failed, metric, ...figure } }) => {
    const [value, ...interval] = kshot.figure(figure);
    return html`<tr><td>${task}</td><td>${model}</td>
      <td class="meter"><progress max=${total || 1} value=${total ? done : Number(state === "done")} aria-label="${task} on ${model}" /></td>
      <td class="num">${count(done)}${total && ` of ${count(total)}`}</td>
      <td class="num">${failed ? html`<b class="verdict failed">${count(failed)}</b>` : 0}</td>
      <td class="score">${figure.value === null ? state : html`<b>${value}</b> <small>${interval.join("–")} ${metric}</small>`}</td></tr>`;
  };

  /** A run that works: each task with its bar and the figure so far, and the samples that came last. */
  const Working = ({ run, run: { progress, latest = [] } }) => html`<section class="section" aria-label="Progress">
    <h2>Progress</h2>
    <${kshot.Progress} run=${run} label="The whole run" />
    <div class="scroll" tabindex="0" role="region" aria-label="Tasks"><table class="tasks">
      <thead><tr><th>Task</th><th>Model</th><th><span class="hidden">Share</span></th><th class="num">Done</th><th class="num">Failed</th><th>So far</th></tr></thead>
      <tbody>${(progress.tasks || []).map((task) => html`<${Task} task=${task} />`)}</tbody>
    </table></div>
    ${latest.length > 0 && html`<h3>Latest samples</h3>`}
    <ul class="latest">${latest.map((each) => html`<li><${kshot.Verdict} verdict=${each.verdict} short=${true} />
      <span class="text one-line">${each.text}</span><span class="answer one-line soft">${each.answer}</span></li>`)}</ul>
  </section>`;

  /** Sections with their headings, and links to them beside; `place` is the path of the page, `query.section` the wanted one. */
  kshot.Sections = ({ sections, place, query, first }) => {
    const [current, setCurrent] = useState();
    const ids = sections.map(({ id }) => id);
    const element = (id) => document.getElementById(id);
    useEffect(() => element(query.section)?.scrollIntoView(), [query.section, ids.join()]);
    useEffect(() => {
      const look = () => setCurrent(ids.filter((id) => element(id)?.getBoundingClientRect().top < 160).pop());
      return kshot.listen("scroll", look);
    }, [ids.join()]);
    /** A link to a place within a section is no state of this app. */
    const follow = (event) => {
      const id = event.target.closest("a")?.getAttribute("href")?.match(/^#([^/].*)/)?.[1];
      if (!id) return;
      event.preventDefault();
      element(id)?.scrollIntoView();
    };
    return html`<div class="with-nav">
      ${ids.length > 1 && html`<nav class="sections-nav" aria-label="Sections"><ul>
        ${sections.map(({ id, title }) => html`<li><a href=${link(place, { section: id })} aria-current=${id === (current || ids[0]) ? "true" : undefined}>${title}</a></li>`)}
      </ul></nav>`}
      <div onClick=${follow}>${first}${sections.map(({ id, title, html: made }) => html`<section class="section" id=${id} key=${id} aria-labelledby="title-${id}">
        <h2 id="title-${id}">${title}</h2><div dangerouslySetInnerHTML=${{ __html: made }}></div></section>`)}</div>
    </div>`;
  };

  const Facts = ({ run }) => {
    const facts = {
      Headline: run.headline && run.figures === 1 && html`<div class="score"><${kshot.Headline} run=${run} /></div>`,
      Models: run.models.join(", "),
      Datasets: run.datasets.join(", "),
      Started: html`<${kshot.Moment} at=${run.started} exact=${true} />`,
      Took: kshot.duration(run.seconds),
      Cost: kshot.dollars(run.cost_usd),
      Failed: run.failed && html`<b class="verdict failed">${count(run.failed)}</b>`,
    };
    return html`<dl class="facts">${Object.entries(facts).map(([name, value]) => (value ? html`<div><dt>${name}</dt><dd>${value}</dd></div>` : null))}</dl>`;
  };

  kshot.Run = ({ runKey, query }) => {
    const pause = (run, error) => kshot.source.live && (error ? 3000 : run.reading ? 700 : run.state === "done" ? 0 : kshot.isRunning(run) ? 1000 : 5000);
    const { value: run, error } = usePolled("run/" + runKey, () => kshot.source.run(runKey), pause);
    if (!run) return html`<h1>${runKey}</h1>${error ? html`<${Failure} error=${error} />` : html`<p class="loading" role="status">Opening the run…</p>`}`;
    const running = kshot.isRunning(run);
    return html`<div class="heading"><h1>${run.name}</h1><${kshot.State} state=${run.state} /></div>
      <${Facts} run=${run} />
      <${Failure} error=${error} />
      ${run.samples && !running && html`<${Counts} key=${run.state} runKey=${runKey} />`}
      <${kshot.Sections} sections=${run.sections || []} place=${["run", runKey]} query=${query} first=${running && run.progress && html`<${Working} run=${run} />`} />`;
  };
}
