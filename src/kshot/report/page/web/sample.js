// One sample: what was asked, what came back, how the answer was read, what would be right. Two runs stand side by side.
"use strict";

{
  const { html, useState, useMemo, useLayoutEffect, useRef, count, number } = kshot;

  const LONG = 12000;
  const BLANKS = { " ": "·", "\t": "→\t", "\n": "↵\n" };
  const percent = (share) => (share < 1e-4 && share > 0 ? "< 0.01" : number(100 * share, share < 0.1 ? 2 : 1)) + " %";
  const written = (value) => (typeof value === "number" ? number(value, Number.isInteger(value) ? 0 : 4) : value);
  const wordOf = ({ verdict }) => kshot.VERDICTS[verdict].word;
  const signed = (kind, text) => html` <span class="verdict ${kind}">${text}</span>`;

  const Copy = ({ text, word = "copy" }) => {
    const [done, setDone] = useState("");
    const say = (what) => setDone(what) || setTimeout(setDone, 1500, "");
    const act = () => navigator.clipboard.writeText(text).then(() => say("copied"), () => say("the browser refuses"));
    return navigator.clipboard && html`<button class="button quiet small" onClick=${act}>${done || word}</button>`;
  };

  /** The beginning of something long; `show(all)` draws it. */
  const Cut = ({ size, most, what, show }) => {
    const [all, setAll] = useState(size <= most);
    return html`${show(all)}${!all && html`<button class="unfold" onClick=${() => setAll(true)}>show all (${count(size)} ${what})</button>`}`;
  };

  /** A text as it is; a long one without its middle, until somebody asks. `raw` shows blanks; what `other` has not is marked. */
  const Text = ({ text, raw, other = text, side }) => {
    const compared = () => kshot.differences(...(side === "del" ? [text, other] : [other, text])).filter(([kind]) => kind === "same" || kind === side);
    const pieces = useMemo(() => other !== text && compared(), [text, other]);
    if (!text) return html`<p class="soft">(empty)</p>`;
    if (pieces && !raw) return html`<pre dir="auto"><${kshot.Marked} pieces=${pieces} /></pre>`;
    const shown = raw ? text.replace(/[ \t\n]/g, (blank) => BLANKS[blank]) : text;
    const cut = (all) => html`<pre dir="auto">${all ? shown : `${shown.slice(0, LONG / 3)}\n\n …\n\n${shown.slice((-LONG * 2) / 3)}`}</pre>`;
    return html`<${Cut} key=${text} size=${text.length} most=${LONG} what="characters" show=${cut} />`;
  };

  const part = (title, inner, note, copied) => html`<section class="part">
    <div class="part-head"><h3>${title}</h3><span class="soft">${note}</span>${copied && html`<${Copy} text=${copied} />`}</div>${inner}</section>`;

  const folded = (title, note, inner, open) => html`<details class="part" open=${open}><summary><h3>${title}</h3> ${note}</summary>${inner}</details>`;

  const Table = ({ head, rows }) => html`<table class="plain">${head && html`<thead><tr>${head.map((word) => html`<th>${word}</th>`)}</tr></thead>`}
    <tbody>${rows.map(([first, ...rest]) => html`<tr><th scope="row">${first}</th>${rest.map((cell) => html`<td>${cell}</td>`)}</tr>`)}</tbody></table>`;

  // ---- what was asked ----

  /** The parts of a prompt before the question, and those that ask. */
  const asked = ({ messages, asks, asks_at: start }) => {
    const all = messages.map(({ role, content }) => [role, content]);
    const [role, text] = all[asks];
    return start
      ? [[...all.slice(0, asks), [role, text.slice(0, start)]], [[role, text.slice(start)], ...all.slice(asks + 1)]]
      : [all.slice(0, asks), all.slice(asks)];
  };

  /** Messages with their roles; what stands above the question is folded. `beside` is the prompt of another run. */
  const Messages = ({ prompt, raw, beside, side }) => {
    const parts = asked(prompt);
    const others = beside && asked(beside);
    const otherOf = (kind, at) => others && (others[kind][others[kind].length - parts[kind].length + at]?.[1] ?? "");
    const [above, below] = parts.map((all, kind) => all.map(([role, text], at) => html`<div class="message">
      ${role && html`<span class="role">${role}</span>`}<${Text} text=${text} raw=${raw} other=${otherOf(kind, at)} side=${side} /></div>`));
    const size = parts[0].reduce((sum, [, text]) => sum + text.length, 0);
    const differs = others && parts[0].some(([, text], at) => text !== otherOf(0, at));
    return html`${size > 0 && html`<details class="examples">
      <summary>${prompt.above} above · ${count(size)} characters${differs && html` · <b>differs</b>`}</summary>${above}</details>`}${below}`;
  };

  // ---- what came back ----

  const shade = (logprob) => [0.9, 0.5, 0.1, 0.01].filter((share) => Math.exp(logprob) < share).length;

  /** Tokens: the less likely, the darker and the more underlined. */
  const Tokens = ({ tokens }) => {
    const told = ([text, logprob]) => [JSON.stringify(text), number(logprob, 4), percent(Math.exp(logprob))];
    return html`<${Cut} size=${tokens.length} most=${1000} what="tokens" show=${(all) => {
      const shown = tokens.slice(0, all ? Infinity : 1000);
      const sum = tokens.reduce((sum, [, logprob]) => sum + logprob, 0);
      return html`<pre dir="auto" class="tokens">
          ${shown.map((each) => html`<span class="shade-${shade(each[1])}" title=${told(each).join("  ")}>${each[0]}</span>`)}</pre>
        <details><summary>${count(tokens.length)} token${tokens.length === 1 ? "" : "s"}, log-probability ${number(sum)}: the numbers</summary>
        <${Table} head=${["#", "token", "log-probability", "probability"]} rows=${shown.map((each, at) => [at + 1, ...told(each)])} /></details>`;
    }} />`;
  };

  const bar = (share) => html`<svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
    <rect class="all" width="100" height="8" /><rect width=${100 * share} height="8" /></svg>${percent(share)}`;

  const OPTION_COLUMNS = [["log-prob", "logprob", number], ["tokens", "tokens", written], ["baseline", "baseline", number], ["share", "share", bar]];

  const optionsTable = (options) => {
    const has = (name) => options.some((each) => each[name] !== null);
    const columns = OPTION_COLUMNS.filter(([, name]) => has(name));
    const mark = ({ chosen, right }) => (right ? signed("right", chosen ? "✓ chosen, right" : "✓ right") : chosen && signed("wrong", "✗ chosen"));
    return html`<div class="scroll" tabindex="0" role="group" aria-label="Options"><table class="options">
      <thead><tr><td></td><th>option</th>${columns.map(([word]) => html`<th class=${word}>${word}</th>`)}<td></td></tr></thead>
      <tbody>${options.map((each) => html`<tr class=${each.right ? "is-right" : each.chosen ? "is-wrong" : ""}>
        <td><b>${each.label}</b></td><td class="option"><bdi>${each.text}</bdi></td>
        ${columns.map(([word, name, shown]) => html`<td class=${word}>${each[name] !== null && shown(each[name])}</td>`)}
        <td>${mark(each)}</td></tr>`)}</tbody></table></div>
      ${has("token_logprobs") && html`<details><summary>Tokens of the options</summary>
        ${options.map((each) => each.token_logprobs && html`<b>${each.label}</b><${Tokens} tokens=${each.token_logprobs} />`)}</details>`}`;
  };

  /** A passage with its evidence marked: marks are [start, end, components]. */
  const evidenceIn = ({ text, marks }) => [
    ...marks.map(([start, end, components], at) => html`${text.slice(at && marks[at - 1][1], start)}
      <mark>${text.slice(start, end)}<sup>${components.join()}</sup></mark>`),
    text.slice(marks.length && marks[marks.length - 1][1]),
  ];

  const passage = (each) => html`<li class=${each.components.length || each.grade ? "hit" : ""}>
    <b>${each.rank}</b> <bdi class="mono">${each.id}</bdi> <span class="soft">${number(each.score, 3)}</span>
    ${each.grade && signed("right", `✓ relevant, grade ${each.grade}`)}
    ${each.components.length > 0 && signed("right", `✓ component ${each.components.join(", ")}`)}
    ${each.text !== null && html`<details open=${each.marks.length > 0}><summary class="one-line"><bdi>${each.text.slice(0, 200)}</bdi></summary>
      <pre dir="auto">${evidenceIn(each)}</pre></details>`}</li>`;

  const passageList = (passages) => {
    const show = (all) => html`<ol class="passages">${passages.slice(0, all ? Infinity : 10).map(passage)}</ol>`;
    return html`<${Cut} size=${passages.length} most=${10} what="passages" show=${show} />`;
  };

  const quoted = (quotes) => quotes.map((quote, at) => html`${at > 0 && " or "}“<bdi>${quote}</bdi>”`);

  /** The components of the answer: those that no passage has are named first. */
  const evidence = (components) => html`
    ${components.map(({ number, quotes, state }) => state === "missing" &&
      html`<p class="notice wrong missing"><b>✗ Component ${number} is missing from the passages:</b> ${quoted(quotes)}</p>`)}
    ${part("Evidence", html`<ol class="evidence">
      ${components.map(({ rank, quotes }) => html`<li>${quoted(quotes)}${rank && signed("right", `✓ in passage ${rank}`)}</li>`)}</ol>`)}`;

  // ---- all of it ----

  const several = (texts) => {
    const shown = texts.map((text) => html`<${Text} text=${text} />`);
    return texts.length > 1 ? html`<ol>${shown.map((each) => html`<li>${each}</li>`)}</ol>` : shown;
  };

  const Body = ({ sample, beside, side, raw }) => {
    const { prompt, replies, reasoning, likelihood, judge, read, targets, components, passages, options, query } = sample;
    const [scores, more] = [sample.scores, sample.more].map(Object.entries);
    const titled = (word, all, at) => (all.length > 1 ? `${word} ${at + 1}` : word);
    const textOf = (text, other) => html`<${Text} text=${text} raw=${raw} other=${other} side=${side} />`;
    const inTokens = ({ text, tokens }, other) => (tokens && !raw && other === undefined ? html`<${Tokens} tokens=${tokens} />` : textOf(text, other));
    const whole = /[^]{300}|(\n[^]*){7}/.test(read.answers) && read.answers.every((text, at) => text === replies[at]?.text);
    const scored = scores.map(([name, value]) => [name, written(value), sample.answers[name]]);
    return html`
      ${sample.failed && html`<div class="notice failed"><b>! Failed</b>${textOf(sample.failed)}</div>`}
      ${sample.notes.map((note) => html`<p class="notice partly">${note}</p>`)}
      <div class="answer-target">
        ${read.answers.length > 0 && html`<div><h3>Answer</h3>${whole ? html`<p>the whole reply</p>` : several(read.answers)}
          <p class="soft">${read.rule}${read.pattern && html` pattern <code>${read.pattern}</code>`}</p></div>`}
        ${targets.length > 0 && html`<div><h3>Target</h3>${several(targets)}</div>`}</div>
      ${components.length > 0 && evidence(components)}
      ${prompt && part(
        passages.length && !replies.length ? "Query" : "Prompt",
        html`<${Messages} prompt=${prompt} raw=${raw} beside=${beside?.prompt} side=${side} />`,
        "",
        prompt.messages.map(({ content }) => content).join("\n\n"),
      )}
      ${query !== null && part("The rewriter wrote", textOf(query))}
      ${likelihood && part("Text", inTokens(likelihood), likelihood.measured)}
      ${options.length > 0 && part("Options", optionsTable(options))}
      ${passages.length > 0 && part("Passages", passageList(passages), `${count(passages.length)} found`)}
      ${reasoning.map((text, at) => text && folded(titled("Reasoning", reasoning, at), `${count(text.length)} characters`, textOf(text)))}
      ${replies.map((reply, at) =>
        part(titled("Reply", replies, at), inTokens(reply, beside && (beside.replies[at]?.text ?? "")), reply.stop_reason, reply.text))}
      ${judge.map((each, at) => part(titled("Judge", judge, at), html`${textOf(each.reply)}
        <details><summary>What the judge was asked</summary><${Messages} prompt=${each.prompt} raw=${raw} /></details>`, "", each.reply))}
      ${scores.length > 0 && folded("Scores", "by every metric", html`<${Table} rows=${scored} />`, scores.length < 7)}
      ${more.length > 0 && folded("More", more.map(([name]) => name).join(", "), html`<${Table} rows=${more.map(([name, text]) => [name, textOf(text)])} />`)}`;
  };

  const Names = ({ task, model, category, score, metric }) => html`<p class="names soft">
    ${[task, model, category].filter(Boolean).map((name) => html`<bdi>${name}</bdi>`)}
    ${score !== null && html`<span>${metric} <b>${written(score)}</b></span>`}</p>`;

  /** Choose another run to stand beside this one. Pages without a server say which comparisons they have. */
  kshot.OtherRun = ({ runKey, query, path }) => {
    const { value } = kshot.useLoaded(kshot.source.runs, []);
    const { runs = [], comparisons } = value ?? {};
    const offered = runs.filter(({ key, samples }) =>
      key !== runKey && samples && (!comparisons || comparisons.some((pair) => pair.includes(key) && pair.includes(runKey))));
    const choose = ({ target }) => kshot.go(path, { ...query, other: target.value, flip: target.value && query.flip });
    return (offered.length > 0 || query.other) && html`<label class="labelled other-run"><span>Compare with</span>
      <select class="field" aria-label="Compare with" value=${query.other ?? ""} onChange=${choose}>
        <option value="">no other run</option>${offered.map(({ key, name }) => html`<option value=${key}>${name}</option>`)}</select></label>`;
  };

  /** One sample. `place` says where it stands in the list: {text, back, previous, next}. */
  kshot.Sample = ({ runKey, n, query, place }) => {
    const { other, metric, raw } = query;
    const top = useRef();
    const path = ["run", runKey, "samples", String(n)];
    const load = () => kshot.source.sample(runKey, n, { other, metric }).then((found) => ({ ...found, n, other }));
    const { value, error } = kshot.useLoaded(load, [runKey, n, other, metric]);
    useLayoutEffect(() => {
      top.current.scrollTop = 0;
    }, [value?.n]);
    const { sample, others } = (!error && value) || {};
    const first = sample && value.other && others[0];
    const turn = () => kshot.go(path, { ...query, raw: raw ? "" : 1 }, { replace: true });
    const step = (word, link) => html`<a class="button small ${link ? "" : "off"}" href=${link} aria-disabled=${!link}>${word}</a>`;
    const models = others?.length > 1;
    const columns = first ? others.map((each) => [each, other, sample, "del"]) : [];
    if (sample) columns.splice(1, 0, first ? [sample, runKey, first, "ins"] : [sample, ""]); // beside the first other one
    return html`<div class="sample" ref=${top}>
      <header class="sample-head"><div class="bar">
          <a class="button small back" href=${place.back}>list</a>${step("previous", place.previous)}${step("next", place.next)}
          <span class="place soft">${place.text}</span><span class="grow"></span>
          <button class="button small" aria-pressed=${Boolean(raw)} onClick=${turn}>Raw text</button>
          <${Copy} text=${location.href} word="Copy link" /><${kshot.OtherRun} ...${{ runKey, query, path }} />
        </div>
        ${sample && html`<h2>
          <span class="badge ${sample.verdict}">${kshot.VERDICTS[sample.verdict].sign} ${wordOf(sample)}</span> <bdi>${sample.id}</bdi></h2>`}
        ${first && html`<p class="flip"><b>${runKey}</b> is ${wordOf(sample)}
          ${others.map((each) => html`, <b>${other}${models && ` (${each.model})`}</b> is ${wordOf(each)}`)}.</p>`}
        ${sample && !first && html`<${Names} ...${sample} />${value.other && html`<p class="notice">${other} does not have this question.</p>`}`}
      </header>
      <${kshot.Failure} error=${error} />
      <div class=${first ? "side-by-side" : ""}>${columns.map(([each, name, beside, side]) => html`
        <article key=${[value.n, name, each.model]} aria-label="Sample ${each.id} ${name}">
        ${name && html`<div class="run-head"><b>${name}</b><${kshot.Verdict} verdict=${each.verdict} /><${Names} ...${each} /></div>`}
        <${Body} sample=${each} beside=${beside} side=${side} raw=${raw} /></article>`)}</div>
    </div>`;
  };
}
