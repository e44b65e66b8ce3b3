// One sample: what was asked, what came back, how the answer was read, what would be right. Two runs stand side by side.
"use strict";

{
  const { html, useState, useMemo, useLayoutEffect, useRef, count, number } = kshot;

  const LONG = 12000;
  const MANY_TOKENS = 1500;
  const MANY_PASSAGES = 10;
  const BLANKS = { " ": "·", "\t": "→\t", "\n": "↵\n" };
  const percent = (share) => (share < 1e-4 && share > 0 ? "< 0.01" : number(100 * share, share < 0.1 ? 2 : 1)) + " %";
  const written = (value) => (typeof value === "number" ? number(value, Number.isInteger(value) ? 0 : 4) : value);
  const wordOf = ({ verdict }) => kshot.VERDICTS[verdict].word;

  const Copy = ({ text, word = "copy" }) => {
    const [done, setDone] = useState(false);
    const act = async () => {
      await navigator.clipboard.writeText(text());
      setDone(true);
      setTimeout(() => setDone(false), 1500);
    };
    return navigator.clipboard && html`<button class="button quiet small" onClick=${act}>${done ? "copied" : word}</button>`;
  };

  const Unfold = ({ all, what, onClick }) => html`<button class="unfold" onClick=${onClick}>show all (${count(all)} ${what})</button>`;

  /** A text as it is; a long one without its middle, until somebody asks. `raw` shows blanks; what `other` has not is marked. */
  const Text = ({ text, raw, other, side }) => {
    const [all, setAll] = useState(false);
    const pieces = useMemo(() => {
      if (other === undefined || other === text) return null;
      return kshot.differences(...(side === "del" ? [text, other] : [other, text])).filter(([kind]) => kind === "same" || kind === side);
    }, [text, other]);
    if (!text) return html`<p class="soft">(empty)</p>`;
    if (pieces && !raw) return html`<pre dir="auto"><${kshot.Marked} pieces=${pieces} /></pre>`;
    const pre = (part) => html`<pre dir="auto">${raw ? part.replace(/[ \t\n]/g, (blank) => BLANKS[blank]) : part}</pre>`;
    if (all || text.length <= LONG) return pre(text);
    return html`${pre(text.slice(0, LONG / 3))}<${Unfold} all=${text.length} what="characters" onClick=${() => setAll(true)} />${pre(text.slice((-LONG * 2) / 3))}`;
  };

  const Part = ({ title, note, copied, children }) => html`<section class="part">
    <div class="part-head"><h3>${title}</h3><span class="soft">${note}</span>${copied && html`<${Copy} text=${copied} />`}</div>${children}
  </section>`;

  const Folded = ({ title, note, open, children }) =>
    html`<details class="part" open=${open}><summary><h3>${title}</h3> ${note}</summary>${children}</details>`;

  const Table = ({ head, rows }) => html`<table class="plain">${head && html`<thead><tr>${head.map((word) => html`<th>${word}</th>`)}</tr></thead>`}
    <tbody>${rows.map(([first, ...rest]) => html`<tr><th scope="row">${first}</th>${rest.map((cell) => html`<td>${cell}</td>`)}</tr>`)}</tbody></table>`;

  // ---- what was asked ----

  /** The parts of a prompt before the question, and those that ask. */
  const asked = ({ messages, asks, asks_at: start }) => {
    const all = messages.map(({ role, content }) => ({ role, text: content }));
    const [above, below] = [all.slice(0, asks), all.slice(asks)];
    if (!start) return [above, below];
    const [{ role, text }, ...rest] = below;
    return [[...above, { role, text: text.slice(0, start) }], [{ role, text: text.slice(start) }, ...rest]];
  };

  /** Messages with their roles; what stands above the question is folded. `beside` is the prompt of another run. */
  const Messages = ({ prompt, raw, beside, side }) => {
    const parts = asked(prompt);
    const others = beside && asked(beside);
    const otherOf = (kind, at) => others && (others[kind][others[kind].length - parts[kind].length + at]?.text ?? "");
    const [above, below] = parts.map((all, kind) => all.map(({ role, text }, at) => html`<div class="message">
      ${role && html`<span class="role">${role}</span>`}<${Text} text=${text} raw=${raw} other=${otherOf(kind, at)} side=${side} /></div>`));
    const differs = others && parts[0].some(({ text }, at) => text !== otherOf(0, at));
    return html`${above.length > 0 && html`<details class="examples"><summary>${prompt.above || "more"} above · ${count(parts[0].reduce((sum, { text }) => sum + text.length, 0))} characters
      ${differs && html` · <b>differs</b>`}</summary>${above}</details>`}${below}`;
  };

  // ---- what came back ----

  const shade = (logprob) => [0.9, 0.5, 0.1, 0.01].filter((share) => Math.exp(logprob) < share).length;

  /** Tokens: the less likely, the darker and the more underlined. The one that is pointed at tells its value. */
  const Tokens = ({ tokens }) => {
    const [at, setAt] = useState(-1);
    const [all, setAll] = useState(false);
    const shown = all ? tokens : tokens.slice(0, MANY_TOKENS);
    const step = (event) => {
      const way = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (way) setAt(Math.min(Math.max(at + way, 0), shown.length - 1));
    };
    const told = ([text, logprob]) => [html`<code>${JSON.stringify(text)}</code>`, number(logprob, 4), percent(Math.exp(logprob))];
    const point = (event) => setAt(Number(event.target.dataset.at ?? -1));
    return html`<div class="tokens" tabindex="0" role="group" aria-label="Tokens: arrow keys go through them" onKeyDown=${step} onMouseOver=${point}>
      <pre dir="auto">${shown.map(([text, logprob], place) => html`<span class="token shade-${shade(logprob)} ${place === at ? "at" : ""}" data-at=${place}>${text}</span>`)}</pre></div>
      <p class="soft token-value" role="status">${tokens[at]
        ? told(tokens[at]).map((each) => html`${each}  `)
        : `${count(tokens.length)} tokens, ${number(tokens.reduce((sum, [, logprob]) => sum + logprob, 0))} in all; point at one to see its log-probability`}</p>
      ${shown.length < tokens.length && html`<${Unfold} all=${tokens.length} what="tokens" onClick=${() => setAll(true)} />`}
      <details><summary>The numbers</summary><${Table} head=${["#", "token", "log-probability", "probability"]} rows=${shown.map((each, place) => [place + 1, ...told(each)])} /></details>`;
  };

  const Options = ({ options }) => {
    const has = (name) => options.some((each) => each[name] !== null);
    const [measured, based] = [has("logprob"), has("baseline")];
    const mark = ({ chosen, right }) => chosen && html`<span class="verdict ${right ? "right" : "wrong"}">${right ? "✓ chosen, right" : "✗ chosen"}</span>` || right && html`<span class="verdict right">✓ right</span>`;
    return html`<${Part} title="Options">
      <div class="scroll" tabindex="0" role="region" aria-label="Options"><table class="options"><thead><tr><th></th><th>option</th>
        ${measured && html`<th class="num">log-prob.</th><th class="num tokens-of">tokens</th>`}${based && html`<th class="num">baseline</th>`}
        ${measured && html`<th title="of the probability of all options">share</th>`}<th></th></tr></thead>
        <tbody>${options.map((each) => html`<tr class=${each.right ? "is-right" : each.chosen ? "is-wrong" : ""}><th scope="row">${each.label}</th><td><bdi>${each.text}</bdi></td>
          ${measured && html`<td class="num">${number(each.logprob)}</td><td class="num tokens-of">${each.tokens ?? "–"}</td>`}${based && html`<td class="num">${number(each.baseline)}</td>`}
          ${measured && html`<td class="share-of">${each.share !== null && html`<svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"><rect class="all" width="100" height="8" /><rect width=${100 * each.share} height="8" /></svg>${percent(each.share)}`}</td>`}
          <td class="marks">${mark(each)}</td></tr>`)}</tbody></table></div>
      ${has("token_logprobs") && html`<details><summary>Tokens of the options</summary>${options.map((each) => each.token_logprobs && html`<p><b>${each.label}</b></p><${Tokens} tokens=${each.token_logprobs} />`)}</details>`}
    </${Part}>`;
  };

  /** A passage with its evidence marked: marks are [start, end, components]. */
  const evidenceIn = ({ text, marks }) => {
    let done = 0;
    const parts = marks.map(([start, end, components]) => {
      const before = text.slice(done, start);
      done = end;
      return html`${before}<mark>${text.slice(start, end)}<sup>${components.join(", ")}</sup></mark>`;
    });
    return [...parts, text.slice(done)];
  };

  const Passages = ({ passages }) => {
    const [all, setAll] = useState(false);
    return html`<${Part} title="Passages" note=${`${count(passages.length)} found`}>
      <ol class="passages">${passages.slice(0, all ? undefined : MANY_PASSAGES).map((each) => html`<li class=${each.components.length || each.grade ? "hit" : ""}>
        <div class="passage-head"><b class="num">${each.rank}</b><bdi class="mono">${each.id}</bdi><span class="soft">${number(each.score, 3)}</span>
          ${each.grade && html`<span class="badge right">✓ relevant, grade ${each.grade}</span>`}
          ${each.components.length > 0 && html`<span class="badge right">✓ component ${each.components.join(", ")}</span>`}</div>
        ${each.text !== null && html`<details open=${each.marks.length > 0}><summary class="one-line"><bdi>${each.text.slice(0, 200)}</bdi></summary><pre dir="auto">${evidenceIn(each)}</pre></details>`}
      </li>`)}</ol>
      ${!all && passages.length > MANY_PASSAGES && html`<${Unfold} all=${passages.length} what="passages" onClick=${() => setAll(true)} />`}
    </${Part}>`;
  };

  /** The components of the answer: those that no passage has are named first. */
  const Evidence = ({ components }) => {
    const quoted = (quotes) => quotes.map((quote, at) => html`${at > 0 && " or "}“<bdi>${quote}</bdi>”`);
    const missing = components.filter(({ state }) => state === "missing");
    return html`${missing.map(({ number, quotes }) => html`<p class="notice wrong missing"><b>✗ Component ${number} is in no passage found:</b> ${quoted(quotes)}</p>`)}
      <${Part} title="Evidence" note=${components.every(({ state }) => state !== "unknown") && `${components.length - missing.length} of ${components.length} components found`}>
      <ol class="evidence">${components.map(({ rank, quotes }) => html`<li>${quoted(quotes)} ${rank && html`<span class="verdict right">✓ in passage ${rank}</span>`}</li>`)}</ol></${Part}>`;
  };

  // ---- all of it ----

  const Answer = ({ read, targets, replies }) => {
    const several = (texts) => (texts.length > 1 ? html`<ol>${texts.map((text) => html`<li><${Text} text=${text} /></li>`)}</ol>` : html`<${Text} text=${texts[0]} />`);
    const repeated = read.answers.join().length > 300 && read.answers.every((text, at) => text === replies[at]?.text);
    return html`<div class="answer-target">
      ${read.answers.length > 0 && html`<div><h3>Answer</h3>${repeated ? html`<p>the whole reply</p>` : several(read.answers)}
        <p class="soft">${read.rule} ${read.pattern && html`pattern <code>${read.pattern}</code>`}</p></div>`}
      ${targets.length > 0 && html`<div><h3>Target</h3>${several(targets)}</div>`}</div>`;
  };

  const Body = ({ sample, beside, side, raw }) => {
    const { prompt, replies, reasoning, likelihood, judge } = sample;
    const [scores, rules, more] = [sample.scores, sample.answers, sample.more].map(Object.entries);
    const titled = (word, all, at) => (all.length > 1 ? `${word} ${at + 1}` : word);
    const inTokens = ({ text, tokens }, other) => (tokens && !raw && other === undefined ? html`<${Tokens} tokens=${tokens} />` : html`<${Text} text=${text} raw=${raw} other=${other} side=${side} />`);
    return html`
      ${sample.failed && html`<div class="notice failed"><b>! Failed</b> <${Text} text=${sample.failed} /></div>`}
      ${sample.notes.map((note) => html`<p class="notice partly">${note}</p>`)}
      <${Answer} ...${sample} />
      ${sample.components.length > 0 && html`<${Evidence} components=${sample.components} />`}
      ${prompt && html`<${Part} title=${sample.passages.length && !replies.length ? "Query" : "Prompt"} copied=${() => prompt.messages.map(({ content }) => content).join("\n\n")}>
        <${Messages} prompt=${prompt} raw=${raw} beside=${beside?.prompt} side=${side} /></${Part}>`}
      ${sample.query !== null && html`<${Part} title="The rewriter wrote"><${Text} text=${sample.query} raw=${raw} /></${Part}>`}
      ${likelihood && html`<${Part} title="Text" note=${likelihood.measured}>${inTokens(likelihood)}</${Part}>`}
      ${sample.options.length > 0 && html`<${Options} options=${sample.options} />`}
      ${sample.passages.length > 0 && html`<${Passages} passages=${sample.passages} />`}
      ${reasoning.map((text, at) => text && html`<${Folded} title=${titled("Reasoning", reasoning, at)} note=${`${count(text.length)} characters`}><${Text} text=${text} raw=${raw} /></${Folded}>`)}
      ${replies.map((reply, at) => html`<${Part} title=${titled("Reply", replies, at)} note=${reply.stop_reason !== "stop" && reply.stop_reason} copied=${() => reply.text}>
        ${inTokens(reply, beside && (beside.replies[at]?.text ?? ""))}</${Part}>`)}
      ${judge.map(({ prompt, reply }, at) => html`<${Part} title=${titled("Judge", judge, at)} copied=${() => reply}><${Text} text=${reply} raw=${raw} />
        <details><summary>What the judge was asked</summary><${Messages} prompt=${prompt} raw=${raw} /></details></${Part}>`)}
      ${scores.length > 0 && html`<${Folded} title="Scores" note="by every metric" open=${scores.length < 7}><${Table} rows=${scores.map(([name, value]) => [name, written(value)])} /></${Folded}>`}
      ${rules.some(([, text]) => text !== rules[0][1]) && html`<${Folded} title="Answers" note="by every rule"><${Table} rows=${rules} /></${Folded}>`}
      ${more.length > 0 && html`<${Folded} title="More" note=${more.map(([name]) => name).join(", ")}><${Table} rows=${more.map(([name, text]) => [name, html`<${Text} text=${text} />`])} /></${Folded}>`}`;
  };

  const Names = ({ sample }) => html`<p class="names soft">${[sample.task, sample.model, sample.category].filter(Boolean).map((name) => html`<bdi>${name}</bdi>`)}
    ${sample.score !== null && html`<span>${sample.metric} <b>${written(sample.score)}</b></span>`}</p>`;

  /** Choose another run to stand beside this one. */
  kshot.OtherRun = ({ runKey, query, path }) => {
    const { value } = kshot.useLoaded(() => kshot.source.runs(), []);
    const runs = (value?.runs ?? []).filter(({ key, samples }) => key !== runKey && samples);
    const choose = ({ target }) => kshot.go(path, { ...query, other: target.value, flip: target.value && query.flip });
    return runs.length > 0 && html`<label class="labelled other-run"><span>Compare with</span><select class="field" value=${query.other ?? ""} onChange=${choose}>
      <option value="">no other run</option>${runs.map(({ key, name }) => html`<option value=${key}>${name}</option>`)}</select></label>`;
  };

  /** One sample. `place` says where it stands in the list: {text, back, previous, next}. */
  kshot.Sample = ({ runKey, n, query, place }) => {
    const { other, metric, raw } = query;
    const [picked, setPicked] = useState(0);
    const top = useRef();
    const path = ["run", runKey, "samples", String(n)];
    const { value, error } = kshot.useLoaded(() => kshot.source.sample(runKey, n, { other, metric }).then((found) => ({ ...found, n, other })), [runKey, n, other, metric]);
    useLayoutEffect(() => {
      setPicked(0);
      top.current.scrollTop = 0;
    }, [value?.n]);
    const { sample, others } = (!error && value) || {};
    const second = sample && value.other && others[Math.min(picked, others.length - 1)];
    const step = (word, link) => html`<a class="button small ${link ? "" : "off"}" href=${link} aria-disabled=${!link}>${word}</a>`;
    const columns = second ? [[second, other, sample, "del"], [sample, runKey, second, "ins"]] : sample ? [[sample, runKey]] : [];
    return html`<div class="sample" ref=${top}>
      <header class="sample-head"><div class="bar">
          <a class="button small back" href=${place.back}>list</a>${step("previous", place.previous)}${step("next", place.next)}<span class="place soft">${place.text}</span><span class="grow"></span>
          <button class="button small" aria-pressed=${Boolean(raw)} onClick=${() => kshot.go(path, { ...query, raw: raw ? "" : 1 }, { replace: true })}>Raw text</button>
          <${Copy} text=${() => location.href} word="Copy link" /><${kshot.OtherRun} runKey=${runKey} query=${query} path=${path} />
        </div>
        ${sample && html`<h2><span class="badge ${sample.verdict}">${kshot.VERDICTS[sample.verdict].sign} ${wordOf(sample)}</span> <bdi>${sample.id}</bdi></h2>`}
        ${second && html`<p class="flip">${second.verdict === sample.verdict ? html`Both are <b>${wordOf(sample)}</b>.` : html`<b>${runKey}</b> is ${wordOf(sample)}, <b>${other}</b> is ${wordOf(second)}.`}</p>`}
        ${second && others.length > 1 && html`<div class="chips" role="group" aria-label="System of the other run">${others.map((each, at) => html`<button class="chip" aria-pressed=${second === each} onClick=${() => setPicked(at)}>${each.model}</button>`)}</div>`}
        ${sample && !second && html`<${Names} sample=${sample} />${value.other && html`<p class="notice">${other} does not have this question.</p>`}`}
      </header>
      <${kshot.Failure} error=${error} />
      <div class=${second ? "side-by-side" : ""}>${columns.map(([each, name, beside, side]) => html`<article key=${`${value.n} ${side}`} aria-label="Sample ${each.id}${second ? ` of ${name}` : ""}">
        ${second && html`<div class="run-head"><b>${name}</b><${kshot.Verdict} verdict=${each.verdict} /><${Names} sample=${each} /></div>`}
        <${Body} sample=${each} beside=${beside} side=${side} raw=${raw} /></article>`)}</div>
    </div>`;
  };
}
