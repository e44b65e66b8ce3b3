// The page of one run: what it is, how far it is, and the sections that Python made.
{
  const { html, useState, useEffect } = kshot;

  const ADVICE = {
    stopped: "A signal or a limit stopped this run. The same command goes on where it stopped; nothing answered is asked again.",
    failed: "An error ended this run. Mend its cause; the same command goes on where it ended, and nothing answered is asked again.",
    killed: "The process of this run ended before its time. The same command goes on where it ended; nothing answered is asked again.",
    damaged: "The files of this run cannot be read. Restore its folder, or run its command again in a new one.",
    "running?": "This run seems to work on another machine; its lock cannot be seen from here.",
  };

  /** The right, wrong and failed samples: a bar of their shares, and links to them. */
  const Counts = ({ runKey }) => {
    const { value, error } = kshot.usePolled("facets/" + runKey, () => kshot.source.facets(runKey), (found) => (found && found.state !== "ready" ? 400 : 0));
    if (error) return html`<${kshot.Failure} error=${error} />`;
    if (value?.state !== "ready") return html`<p class="loading" role="status">Reading the samples… ${value?.share ? kshot.number(100 * value.share, 0) + " %" : ""}</p>`;
    const { verdicts, total } = value;
    const kinds = Object.keys(kshot.VERDICTS).filter((name) => verdicts[name]);
    const link = (verdict) => kshot.link(["run", runKey, "samples"], { verdict });
    let from = 0;
    return html`<svg class="share" viewBox="0 0 ${total} 1" preserveAspectRatio="none" aria-hidden="true">
        ${kinds.map((name) => html`<rect class=${name} x=${(from += verdicts[name]) - verdicts[name]} width=${verdicts[name]} height="1" />`)}
      </svg>
      <nav class="chips" aria-label="Samples">
        <a class="button primary" href=${link()}>All ${kshot.count(total)} samples</a>
        ${kinds.map((name) => html`<a class="button" href=${link(name === "partly" ? "wrong" : name)}><${kshot.Verdict} verdict=${name} /> ${kshot.count(verdicts[name])}</a>`)}
      </nav>`;
  };

  /** A run that works: each task with its bar and the figure so far, and the samples that came last. */
  const Working = ({ run: { progress, latest = [] } }) => html`<section class="section" id="progress" aria-label="Progress">
    <h2>Progress</h2>
    <${kshot.Progress} progress=${progress} label="The whole run" />
    <div class="scroll" tabindex="0" role="region" aria-label="Tasks"><table class="tasks">
      <thead><tr><th>Task</th><th>Model</th><th></th><th class="num">Done</th><th class="num">Failed</th><th>So far</th></tr></thead>
      <tbody>${(progress.tasks || []).map(({ task, model, total, state, done, failed, metric, ...figure }) => {
        const [value, interval] = kshot.figure(figure.value, figure.ci95);
        return html`<tr><td>${task}</td><td>${model}</td>
          <td class="meter"><progress max=${total || 1} value=${total ? done : state === "done" ? 1 : 0} aria-label="${task} on ${model}" /></td>
          <td class="num">${kshot.count(done)}${total ? " of " + kshot.count(total) : ""}</td>
          <td class="num">${failed ? html`<span class="verdict failed">${kshot.count(failed)}</span>` : "0"}</td>
          <td class="score">${figure.value === null ? state : html`<b>${value}</b> <small>${interval} ${metric}</small>`}</td></tr>`;
      })}</tbody>
    </table></div>
    ${latest.length > 0 && html`<h3>Latest samples</h3><ul class="latest">${latest.map((each) => html`<li>
      <${kshot.Verdict} verdict=${each.verdict} short=${true} /><span class="text one-line">${each.text}</span><span class="answer one-line soft">${each.answer}</span></li>`)}</ul>`}
  </section>`;

  /** Sections with their headings, and links to them beside; `place` is the path of the page, `query.section` the wanted one. */
  kshot.Sections = ({ sections, place, query, first }) => {
    const [current, setCurrent] = useState();
    const ids = sections.map(({ id }) => id).join(" ");
    useEffect(() => document.getElementById(query.section)?.scrollIntoView(), [query.section, ids]);
    useEffect(() => {
      const look = () => setCurrent(ids.split(" ").filter((id) => document.getElementById(id)?.getBoundingClientRect().top < 160).pop());
      addEventListener("scroll", look, { passive: true });
      return () => removeEventListener("scroll", look);
    }, [ids]);
    /** A link to a place within a section is no state of this app. */
    const follow = (event) => {
      const id = event.target.closest("a")?.getAttribute("href")?.match(/^#([^/].*)/)?.[1];
      if (!id) return;
      event.preventDefault();
      document.getElementById(id)?.scrollIntoView();
    };
    const now = current || sections[0]?.id;
    return html`<div class="with-nav">
      ${now && html`<nav class="sections-nav" aria-label="Sections"><ul>
        ${sections.map(({ id, title }) => html`<li><a href=${kshot.link(place, { section: id })} aria-current=${id === now ? "true" : undefined}>${title}</a></li>`)}
      </ul></nav>`}
      <div onClick=${follow}>${first}${sections.map(({ id, title, html: made }) => html`<section class="section" id=${id} key=${id} aria-labelledby="title-${id}">
        <h2 id="title-${id}">${title}</h2><div dangerouslySetInnerHTML=${{ __html: made }}></div></section>`)}</div>
    </div>`;
  };

  const Facts = ({ run }) => {
    const facts = [
      ["Models", run.models.join(", ")],
      ["Datasets", run.datasets.join(", ")],
      ["Started", html`<time datetime=${run.started} title=${kshot.ago(run.started)}>${kshot.moment(run.started)}</time>`],
      ["Took", kshot.duration(run.seconds)],
      ["Cost", kshot.dollars(run.cost_usd)],
      ["Failed", run.failed ? kshot.count(run.failed) + " samples" : ""],
    ];
    return html`<dl class="facts">${facts.filter(([, value]) => value).map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
  };

  kshot.Run = ({ runKey, query }) => {
    const pause = (run, error) => kshot.source.live && (error ? 3000 : run.state === "done" ? 0 : kshot.isRunning(run) ? 1000 : 5000);
    const { value: run, error } = kshot.usePolled("run/" + runKey, () => kshot.source.run(runKey), pause);
    if (!run) return html`<h1>${runKey}</h1>${error ? html`<${kshot.Failure} error=${error} />` : html`<p class="loading" role="status">Opening the run…</p>`}`;
    const working = kshot.isRunning(run) && run.progress;
    return html`<div class="heading"><h1>${run.name}</h1><${kshot.State} state=${run.state} /></div>
      <${Facts} run=${run} />
      <${kshot.Failure} error=${error} />
      ${ADVICE[run.state] && html`<div class="notice ${run.state === "running?" ? "" : "wrong"}" role="status">${run.why && html`<p><b>${run.why}</b></p>`}<p>${ADVICE[run.state]}</p></div>`}
      ${run.samples && !kshot.isRunning(run) && html`<${Counts} key=${run.state} runKey=${runKey} />`}
      <${kshot.Sections} sections=${run.sections || []} place=${["run", runKey]} query=${query} first=${working && html`<${Working} run=${run} />`} />`;
  };
}
