// Two runs: who is ahead, and where. The first is the baseline.
{
  const { html, link, usePolled } = kshot;

  const KINDS = [
    ["won", "right", "Won", "better here than in the baseline"],
    ["lost", "wrong", "Lost", "worse here than in the baseline"],
    ["both", "unrated", "Both right", ""],
    ["neither", "unrated", "Neither right", ""],
  ];

  /** How many questions the second run won or lost; those that changed are a link to the samples. */
  const Counters = ({ a, b, found }) => html`<ul class="counters" aria-label="Samples of both runs">${KINDS.map(([name, look, word, what]) => {
    if (found[name] === null) return null; // no metric says right or wrong: there are only higher and lower scores
    const inner = html`<strong class="verdict ${look}">${kshot.count(found[name])}</strong> ${word} <small class="soft">${what}</small>`;
    const to = what && found[name] ? link(["run", b, "samples"], { other: a, flip: name }) : null;
    return html`<li>${to ? html`<a class="card counter" href=${to}>${inner}</a>` : html`<div class="card counter">${inner}</div>`}</li>`;
  })}</ul>`;

  const Side = ({ label, runKey, runs = [] }) => {
    const run = runs.find(({ key }) => key === runKey);
    return html`<div class="card"><small class="soft">${label}</small>
      <div><a href=${link(["run", runKey])}>${run?.name || runKey}</a> <span class="soft">${run?.models.join(", ")}</span></div>
      ${run && html`<div class="score"><${kshot.Headline} run=${run} /></div>`}</div>`;
  };

  kshot.Compare = ({ a, b, query }) => {
    const { value: found, error } = usePolled(`compare/${a}/${b}`, () => kshot.source.comparison(a, b), (now) => (now?.state === "comparing" ? 300 : 0));
    const { value: list } = usePolled("runs", () => kshot.source.runs(), () => 0);
    const ready = found?.state === "ready" && !found.error;
    return html`<div class="heading"><h1>${b} against ${a}</h1></div>
      <div class="pair"><${Side} label="Baseline" runKey=${a} runs=${list?.runs} />
        <a class="button" href=${link(["compare", b, a])} title="Make the other run the baseline"><span aria-hidden="true">⇄</span> Swap</a>
        <${Side} label="Compared with it" runKey=${b} runs=${list?.runs} /></div>
      <${kshot.Failure} error=${error || (found?.error && { message: found.error })} />
      ${(found ? found.state === "comparing" : !error) && html`<p class="loading" role="status">Comparing the runs, sample by sample…</p>`}
      ${ready && html`<${Counters} a=${a} b=${b} found=${found} /><${kshot.Sections} sections=${found.sections} place=${["compare", a, b]} query=${query} />`}`;
  };
}
