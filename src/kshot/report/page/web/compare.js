// Two runs: who is ahead, and where. The first is the baseline.
{
  const { html } = kshot;

  /** How many questions the second run won or lost; what has changed is a link to its samples. */
  const Counters = ({ a, b, found }) => {
    const kinds = [
      ["won", "right", "Won", "right here, wrong in the baseline"],
      ["lost", "wrong", "Lost", "wrong here, right in the baseline"],
      ["both", "soft", "Both right", "no difference"],
      ["neither", "soft", "Neither right", "no difference"],
    ];
    return html`<ul class="counters" aria-label="Samples of both runs">${kinds.map(([name, look, word, what]) => {
      const inner = html`<strong class="verdict ${look}">${kshot.count(found[name])}</strong>${word} <small class="soft">${what}</small>`;
      const link = kshot.link(["run", b, "samples"], { other: a, flip: name });
      return html`<li>${look !== "soft" && found[name] ? html`<a class="card counter" href=${link}>${inner}</a>` : html`<div class="card counter">${inner}</div>`}</li>`;
    })}</ul>`;
  };

  const Side = ({ label, run, runKey }) => html`<div class="card"><div class="soft">${label}</div>
    <a href=${kshot.link(["run", runKey])}>${run?.name || runKey}</a>
    ${run && html`<div class="soft">${run.models.join(", ")}</div><div class="score"><${kshot.Headline} run=${run} /></div>`}</div>`;

  kshot.Compare = ({ a, b, query }) => {
    const { value: found, error } = kshot.usePolled(`compare/${a}/${b}`, () => kshot.source.comparison(a, b), (now) => (now?.state === "comparing" ? 300 : 0));
    const { value: list } = kshot.usePolled("runs", () => kshot.source.runs(), () => 0);
    const run = (key) => list?.runs.find((each) => each.key === key);
    const ready = found?.state === "ready" && !found.error;
    return html`<div class="heading"><h1>Comparison</h1></div>
      <div class="pair"><${Side} label="Baseline" run=${run(a)} runKey=${a} />
        <a class="button" href=${kshot.link(["compare", b, a])} title="Make the other run the baseline"><span aria-hidden="true">⇄</span> Swap</a>
        <${Side} label="Compared with it" run=${run(b)} runKey=${b} /></div>
      <${kshot.Failure} error=${error || (found?.error && { message: found.error })} />
      ${!found && !error && html`<p class="loading" role="status">Opening both runs…</p>`}
      ${found?.state === "comparing" && html`<p class="loading" role="status">Comparing sample by sample… ${found.share ? kshot.number(100 * found.share, 0) + " %" : ""}</p>`}
      ${ready && html`<${Counters} a=${a} b=${b} found=${found} /><${kshot.Sections} sections=${found.sections} place=${["compare", a, b]} query=${query} />`}`;
  };
}
