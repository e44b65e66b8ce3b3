// One sample: what was asked, what came back, how the answer was read, what would be right. Two runs stand side by side.
"use strict";

{
  const { html, useState, useMemo, useLayoutEffect, useRef } = kshot;

  const LONG = 12000;
  const MANY = 1500;
  const SPACES = { " ": "·", "\t": "→\t", "\n": "↵\n" };

  /** Copy a text, also where the browser has no clipboard for pages. */
  const copy = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = Object.assign(document.createElement("textarea"), { value: text });
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
  };

  const Copy = ({ text, word = "copy" }) => {
    const [done, setDone] = useState(false);
    const act = () => copy(text()).then(() => setDone(true) || setTimeout(() => setDone(false), 1500));
    return html`<button class="button quiet small" onClick=${act}>${done ? "copied" : word}</button>`;
  };

  /** A text as it is: a long one without its middle, until somebody asks for it; `raw` shows blanks too. */
  const Text = ({ text, raw, pieces }) => {
    const [all, setAll] = useState(false);
    if (pieces && !raw) return html`<pre dir="auto"><${kshot.Marked} pieces=${pieces} /></pre>`;
    if (!text) return html`<p class="soft">(empty)</p>`;
    const shown = (part) => (raw ? part.replace(/[ \t\n]/g, (blank) => SPACES[blank]) : part);
    if (all || text.length <= LONG) return html`<pre dir="auto" class=${raw ? "raw" : ""}>${shown(text)}</pre>`;
    return html`<pre dir="auto">${shown(text.slice(0, LONG / 3))}</pre>
      <button class="unfold" onClick=${() => setAll(true)}>show all (${kshot.count(text.length)} characters)</button>
      <pre dir="auto">${shown(text.slice((-LONG * 2) / 3))}</pre>`;
  };

  const Part = ({ title, note, actions, children }) => html`<section class="part">
    <div class="part-head"><h3>${title}</h3>${note && html`<span class="soft">${note}</span>`}<span class="actions">${actions}</span></div>
    ${children}
  </section>`;

  // ---- what was asked ----

  /** Cut pieces of a text in two, at a place of this side's text. */
  const cutAt = (pieces, at) => {
    const [above, below] = [[], []];
    for (const [kind, text] of pieces) {
      if (text.length <= at) above.push([kind, text]);
      else if (at <= 0) below.push([kind, text]);
      else above.push([kind, text.slice(0, at)]), below.push([kind, text.slice(at)]);
      at -= text.length;
    }
    return [above, below];
  };

  /** Messages with their roles; what stands above the question is folded. `others` are those of another run. */
  const Messages = ({ prompt, raw, others, side }) => {
    const { messages, asks = 0, asks_at: start = 0, above } = prompt;
    const marked = useMemo(() => others && messages.map(({ content }, at) => {
      const other = others[others.length - messages.length + at]?.content ?? "";
      return kshot.differences(...(side === "del" ? [content, other] : [other, content])).filter(([kind]) => kind === "same" || kind === side);
    }), [messages, others]);
    const shown = (at, from, to) => {
      const { role, content } = messages[at];
      const pieces = marked && cutAt(cutAt(marked[at], to ?? Infinity)[0], from)[1];
      return html`<div class="message">${role && html`<span class="role">${role}</span>`}<${Text} text=${content.slice(from, to)} raw=${raw} pieces=${pieces} /></div>`;
    };
    const earlier = messages.slice(0, asks);
    const size = earlier.reduce((sum, { content }) => sum + content.length, start);
    const differs = marked && [...earlier.flatMap((_, at) => marked[at]), ...cutAt(marked[asks], start)[0]].some(([kind]) => kind !== "same");
    return html`${size > 0 && html`<details class="examples">
        <summary>${above || "the beginning"} above · ${kshot.count(size)} characters${differs && html` · <b>differs</b>`}</summary>
        ${earlier.map((_, at) => shown(at, 0))}${start > 0 && shown(asks, 0, start)}
      </details>`}
      ${shown(asks, start)}${messages.slice(asks + 1).map((_, at) => shown(asks + 1 + at, 0))}`;
  };

  const whole = ({ messages }) => messages.map(({ role, content }) => (role ? `[${role}]\n${content}` : content)).join("\n\n");

  // ---- what came back ----

  const percent = (share) => (share >= 0.9995 ? "100" : kshot.number(100 * share, share < 0.1 ? 2 : 1)) + " %";
  const shade = (logprob) => [0.9, 0.5, 0.1, 0.01].filter((share) => Math.exp(logprob) < share).length;

  /** Tokens: the less likely, the darker, and underlined where the model would rather write something else. */
  const Tokens = ({ tokens }) => {
    const [at, setAt] = useState(null);
    const [all, setAll] = useState(false);
    const shown = all ? tokens : tokens.slice(0, MANY);
    const sum = tokens.reduce((total, [, logprob]) => total + (logprob ?? 0), 0);
    const keys = (event) => {
      const way = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (way) setAt(Math.min(Math.max((at ?? -way) + way, 0), shown.length - 1)) || event.preventDefault();
    };
    const [text, logprob] = tokens[at] ?? [];
    return html`<div class="tokens" tabindex="0" role="group" aria-label="Tokens; arrow keys go through them" onKeyDown=${keys}
        onMouseOver=${(event) => setAt(event.target.dataset.at ? Number(event.target.dataset.at) : null)}>
        <pre dir="auto">${shown.map(([text, logprob], place) => html`<span class="token shade-${shade(logprob)} ${place === at ? "at" : ""}" data-at=${place}>${text}</span>`)}</pre>
      </div>
      <p class="soft token-value" role="status">${logprob === undefined
        ? html`${kshot.count(tokens.length)} tokens · ${kshot.number(sum)} in all · point at one`
        : html`token ${at + 1}: <code>${JSON.stringify(text)}</code> ${kshot.number(logprob, 3)} · ${percent(Math.exp(logprob))}`}</p>
      ${shown.length < tokens.length && html`<button class="unfold" onClick=${() => setAll(true)}>show all (${kshot.count(tokens.length)} tokens)</button>`}
      <details><summary>The numbers</summary><table class="plain"><thead><tr><th class="num">#</th><th>token</th><th class="num">log-probability</th><th class="num">probability</th></tr></thead>
        <tbody>${shown.map(([text, logprob], place) => html`<tr><td class="num">${place + 1}</td><td><code>${JSON.stringify(text)}</code></td><td class="num">${kshot.number(logprob, 4)}</td><td class="num">${percent(Math.exp(logprob))}</td></tr>`)}</tbody></table></details>`;
  };

  const Options = ({ options }) => {
    const [measured, based] = ["logprob", "baseline"].map((name) => options.some((each) => each[name] !== null));
    const tokens = options.filter((each) => each.token_logprobs);
    return html`<${Part} title="Options" note=${measured && "share: of the probability of all options"}>
      <div class="scroll" tabindex="0" role="region" aria-label="Options"><table class="options"><thead><tr><th></th><th>option</th>
        ${measured && html`<th class="num">log-prob.</th><th class="num">tokens</th>`}${based && html`<th class="num">baseline</th>`}${measured && html`<th>share</th>`}<th><span class="hidden">marks</span></th></tr></thead>
        <tbody>${options.map((each) => html`<tr class="${each.right ? "right" : ""} ${each.chosen ? "chosen" : ""}">
          <th scope="row">${each.label}</th><td><bdi>${each.text}</bdi></td>
          ${measured && html`<td class="num">${kshot.number(each.logprob)}</td><td class="num">${each.tokens ?? "–"}</td>`}
          ${based && html`<td class="num">${kshot.number(each.baseline)}</td>`}
          ${measured && html`<td class="share-cell">${each.share !== null && html`<svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"><rect class="all" width="100" height="8" /><rect width=${100 * each.share} height="8" /></svg><span>${percent(each.share)}</span>`}</td>`}
          <td class="marks">${each.chosen && html`<span class="verdict ${each.right ? "right" : "wrong"}">${each.right ? "✓" : "✗"} chosen</span>`}${each.right && html` <span class="verdict right">${each.chosen ? "and right" : "✓ right"}</span>`}</td>
        </tr>`)}</tbody></table></div>
      ${tokens.length > 0 && html`<details><summary>Tokens of the options</summary>${tokens.map((each) => html`<p><b>${each.label}</b></p><${Tokens} tokens=${each.token_logprobs} />`)}</details>`}
    </${Part}>`;
  };

  const MOST_PASSAGES = 10;

  /** A passage with its evidence marked; marks are [start, end, components]. */
  const passageText = ({ text, marks }) => {
    const parts = [];
    let done = 0;
    for (const [start, end, components] of marks) {
      parts.push(text.slice(done, start), html`<mark>${text.slice(start, end)}<sup class="component">${components.join(", ")}</sup></mark>`);
      done = end;
    }
    return [...parts, text.slice(done)];
  };

  const Passages = ({ passages, components }) => {
    const [all, setAll] = useState(false);
    const shown = all ? passages : passages.slice(0, MOST_PASSAGES);
    const found = components.filter(({ state }) => state === "found").length;
    const note = [`${kshot.count(passages.length)} found`, components.length && components.every(({ state }) => state !== "unknown") && `${found} of ${components.length} components among them`];
    return html`<${Part} title="Passages" note=${note.filter(Boolean).join(" · ")}>
      <ol class="passages">${shown.map((each) => html`<li class=${each.components.length || each.grade ? "hit" : ""}>
        <div class="passage-head"><b class="num">${each.rank}</b> <bdi class="mono">${each.id}</bdi> <span class="soft">${kshot.number(each.score, 3)}</span>
          ${each.grade && html`<span class="badge right">✓ relevant (grade ${each.grade})</span>`}
          ${each.components.length > 0 && html`<span class="badge right">✓ component${each.components.length > 1 && "s"} ${each.components.join(", ")}</span>`}</div>
        ${each.text !== null && (each.text.length > 400 || each.rank > 3 ? html`<details open=${each.components.length > 0}><summary>${each.text.slice(0, 90).trim()}…</summary><pre dir="auto">${passageText(each)}</pre></details>` : html`<pre dir="auto">${passageText(each)}</pre>`)}
      </li>`)}</ol>
      ${shown.length < passages.length && html`<button class="unfold" onClick=${() => setAll(true)}>show all (${kshot.count(passages.length)} passages)</button>`}
    </${Part}>`;
  };

  const Quotes = ({ quotes }) => quotes.map((quote, at) => html`${at > 0 && " or "}“<bdi>${quote}</bdi>”`);

  /** The components of the answer: those that no passage has are named first. */
  const Evidence = ({ components }) => html`
    ${components.filter(({ state }) => state === "missing").map(({ number, quotes }) => html`<p class="notice wrong missing"><b>✗ Component ${number} is in no passage found:</b> <${Quotes} quotes=${quotes} /></p>`)}
    <${Part} title="Evidence"><ol class="evidence">${components.map(({ rank, state, quotes }) => html`<li>
      <${Quotes} quotes=${quotes} /> <span class="verdict ${state === "found" ? "right" : state === "missing" ? "wrong" : "unrated"}">${state === "found" ? `✓ found as number ${rank}` : state === "missing" ? "✗ not found" : ""}</span></li>`)}</ol></${Part}>`;

  const Reply = ({ reply, title, raw, other, side }) => {
    const { text, tokens, stop_reason: stop } = reply;
    const pieces = useMemo(() => other !== undefined && kshot.differences(...(side === "del" ? [text, other] : [other, text])).filter(([kind]) => kind === "same" || kind === side), [text, other]);
    return html`<${Part} title=${title} note=${stop && stop !== "stop" && `ended by: ${stop}`} actions=${html`<${Copy} text=${() => text} />`}>
      ${tokens && !raw && !pieces ? html`<${Tokens} tokens=${tokens} />` : html`<${Text} text=${text} raw=${raw} pieces=${pieces} />`}
    </${Part}>`;
  };

  // ---- all of it ----

  const Facts = ({ sample }) => {
    const { read, targets } = sample;
    const several = (texts) => texts.length > 1 ? html`<ol>${texts.map((text) => html`<li><${Text} text=${text} /></li>`)}</ol>` : html`<${Text} text=${texts[0]} />`;
    const repeats = read.answers.length === sample.replies.length && read.answers.every((text, at) => text === sample.replies[at].text);
    return html`<div class="answer-target">
      ${read.answers.length > 0 && html`<div><h3>Answer</h3>${repeats && read.answers.join().length > 300 ? html`<p>the whole reply</p>` : several(read.answers)}
        ${read.rule && html`<p class="soft">${read.rule}</p>`}${read.pattern && html`<p class="soft">pattern <code>${read.pattern}</code></p>`}</div>`}
      ${targets.length > 0 && html`<div><h3>Target${targets.length > 1 && html`<span class="soft"> any of ${targets.length}</span>`}</h3>${several(targets)}</div>`}
    </div>`;
  };

  const Named = ({ values, mono }) => html`<table class="plain"><tbody>${Object.entries(values).map(([name, value]) => html`<tr><th scope="row">${name}</th><td class=${mono ? "mono" : "num"}>${mono ? html`<${Text} text=${value} />` : typeof value === "number" ? kshot.number(value, Number.isInteger(value) ? 0 : 4) : value}</td></tr>`)}</tbody></table>`;

  const Body = ({ sample, other, side, raw }) => {
    const { prompt, replies, reasoning, likelihood, answers, judge, more } = sample;
    const numbered = (word, all, at) => (all.length > 1 ? `${word} ${at + 1}` : word);
    const differs = Object.entries(answers).filter(([, text]) => text !== sample.read.answers[0]);
    return html`
      ${sample.failed && html`<div class="notice failed"><b>! Failed</b> <${Text} text=${sample.failed} /></div>`}
      ${sample.notes.map((note) => html`<p class="notice partly">${note}</p>`)}
      <${Facts} sample=${sample} />
      ${sample.components.length > 0 && html`<${Evidence} components=${sample.components} />`}
      ${prompt && html`<${Part} title=${sample.passages.length && !replies.length ? "Query" : "Prompt"} actions=${html`<${Copy} text=${() => whole(prompt)} />`}>
        <${Messages} prompt=${prompt} raw=${raw} others=${other?.prompt?.messages} side=${side} />
        ${sample.query !== null && html`<p class="soft">The rewriter wrote:</p><${Text} text=${sample.query} raw=${raw} />`}</${Part}>`}
      ${likelihood && html`<${Part} title="Text" note=${likelihood.measured}>${likelihood.tokens && !raw ? html`<${Tokens} tokens=${likelihood.tokens} />` : html`<${Text} text=${likelihood.text} raw=${raw} />`}</${Part}>`}
      ${sample.options.length > 0 && html`<${Options} options=${sample.options} />`}
      ${sample.passages.length > 0 && html`<${Passages} passages=${sample.passages} components=${sample.components} />`}
      ${reasoning.map((text, at) => text && html`<details class="part"><summary><h3>${numbered("Reasoning", reasoning, at)}</h3> ${kshot.count(text.length)} characters</summary><${Text} text=${text} raw=${raw} /></details>`)}
      ${replies.map((reply, at) => html`<${Reply} reply=${reply} title=${numbered("Reply", replies, at)} raw=${raw} other=${other ? other.replies[at]?.text ?? "" : undefined} side=${side} />`)}
      ${judge.map(({ prompt, reply }, at) => html`<${Part} title=${numbered("Judge", judge, at)} actions=${html`<${Copy} text=${() => reply} />`}>
        <${Text} text=${reply} raw=${raw} /><details><summary>What the judge was asked</summary><${Messages} prompt=${prompt} raw=${raw} /></details></${Part}>`)}
      ${Object.keys(sample.scores).length > 0 && html`<details class="part" open=${Object.keys(sample.scores).length < 10}><summary><h3>Scores</h3> by every metric</summary><${Named} values=${sample.scores} /></details>`}
      ${differs.length > 0 && html`<details class="part"><summary><h3>Other rules</h3> choose another answer</summary><${Named} values=${answers} mono /></details>`}
      ${Object.keys(more).length > 0 && html`<details class="part"><summary><h3>More</h3> ${Object.keys(more).join(", ")}</summary><${Named} values=${more} mono /></details>`}`;
  };

  const Names = ({ sample }) => html`<p class="names soft">${[sample.task, sample.model, sample.category].filter(Boolean).map((name) => html`<bdi>${name}</bdi>`)}
    ${sample.score !== null && html`<span>${sample.metric} <b>${kshot.number(sample.score, Number.isInteger(sample.score) ? 0 : 3)}</b></span>`}</p>`;

  /** Choose another run to stand beside this one. */
  kshot.OtherRun = ({ runKey, query, path, id }) => {
    const { value } = kshot.useLoaded(() => kshot.source.runs(), []);
    const runs = ((value?.runs ?? value) || []).filter(({ key, samples }) => key !== runKey && samples !== false);
    if (!runs.length) return null;
    const choose = (event) => kshot.go(path, { ...query, other: event.target.value, flip: event.target.value ? query.flip : "" });
    return html`<label class="labelled" for=${id}><span>Compare with</span><select id=${id} class="field" value=${query.other ?? ""} onChange=${choose}>
      <option value="">no other run</option>${runs.map(({ key, name }) => html`<option value=${key}>${name ?? key}</option>`)}</select></label>`;
  };

  const wordOf = (sample) => (kshot.VERDICTS[sample.verdict] ?? kshot.VERDICTS.unrated).word;

  /** One sample. `place` is {at, of, back, previous, next}: where it stands in the list, and links. */
  kshot.Sample = ({ runKey, n, query, place = {} }) => {
    const { other, metric, raw } = query;
    const [picked, setPicked] = useState(0);
    const top = useRef();
    const path = ["run", runKey, "samples", String(n)];
    const { value, error } = kshot.useLoaded(() => kshot.source.sample(runKey, n, { other, metric }).then((found) => ({ ...found, n, other })), [runKey, n, other, metric]);
    useLayoutEffect(() => {
      setPicked(0);
      top.current?.scrollTo?.(0, 0);
    }, [value?.n]);
    if (error && value?.n !== n) return html`<div class="sample" ref=${top}><${kshot.Failure} error=${error} /><a class="back" href=${place.back}>back to the list</a></div>`;
    if (!value) return html`<div class="sample loading" ref=${top}>loading …</div>`;
    const { sample, others = [] } = value;
    const second = value.other && others[Math.min(picked, others.length - 1)];
    const step = (word, key, link) => html`<a class="button small ${link ? "" : "off"}" href=${link} aria-disabled=${!link} title="key ${key}">${word}</a>`;
    const { word } = { word: wordOf(sample) };
    return html`<div class="sample" ref=${top}>
      <header class="sample-head">
        <div class="bar">
          <a class="button small back" href=${place.back}>back to the list</a>
          ${step("previous", "k", place.previous)}${step("next", "j", place.next)}
          <span class="place soft">${place.at !== undefined && `${kshot.count(place.at + 1)} of ${kshot.count(place.of)}${place.what ? ` ${place.what}` : ""}`}</span>
          <span class="grow"></span>
          <button class="button small" aria-pressed=${Boolean(raw)} onClick=${() => kshot.go(path, { ...query, raw: raw ? "" : 1 }, { replace: true })}>Raw text</button>
          <${Copy} text=${() => location.href} word="Copy link" />
          <${kshot.OtherRun} runKey=${runKey} query=${query} path=${path} id="other-of-sample" />
        </div>
        <h2><span class="badge ${sample.verdict}"><span aria-hidden="true">${kshot.VERDICTS[sample.verdict].sign}</span> ${word}</span> <bdi>${sample.id}</bdi></h2>
        ${second ? html`<p class="flip">${wordOf(second) === word
            ? html`Both are <b>${word}</b>.`
            : html`<b>${runKey}</b> is <span class="verdict ${sample.verdict}">${word}</span>, <b>${other}</b> is <span class="verdict ${second.verdict}">${wordOf(second)}</span>.`}
            ${others.length > 1 && html` <span class="chips" role="group" aria-label="Which system of the other run">${others.map((each, at) => html`<button class="chip" aria-pressed=${second === each} onClick=${() => setPicked(at)}>${each.model}</button>`)}</span>`}</p>`
          : html`<${Names} sample=${sample} />${value.other && html`<p class="notice">${other} has not asked this question.</p>`}`}
      </header>
      ${second ? html`<div class="side-by-side">
          ${[[second, other, sample, "del"], [sample, runKey, second, "ins"]].map(([each, name, beside, side]) => html`<article key=${side} aria-label="Sample ${each.id} of ${name}">
            <div class="run-head"><b>${name}</b> <${kshot.Verdict} verdict=${each.verdict} /><${Names} sample=${each} /></div>
            <${Body} sample=${each} other=${beside} side=${side} raw=${raw} /></article>`)}
        </div>`
        : html`<article key=${n} aria-label="Sample ${sample.id}"><${Body} sample=${sample} raw=${raw} /></article>`}
    </div>`;
  };
}
