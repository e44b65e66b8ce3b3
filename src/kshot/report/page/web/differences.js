// What differs between two texts, word by word, within a bounded time; and texts with the differences marked.
"use strict";

{
  const { html, useState } = kshot;

  const MOST_CHANGES = 700;
  const MOST_STEPS = 1e6;
  const WORDS = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]|[\p{L}\p{M}\p{N}_]+|[^\s]|\s+/gu;
  const LINES = /[^\n]*\n|[^\n]+/g;
  const MOST_WORDS_OF = 3e5;

  /** Return the shortest edit of a to b as [kind, piece] (Myers, 1986), or null where it is too long to find. */
  const edits = (a, b) => {
    const size = 2 * MOST_CHANGES + 3;
    const middle = MOST_CHANGES + 1;
    let far = new Int32Array(size);
    const trace = [];
    let steps = 0;
    for (let changes = 0; changes <= MOST_CHANGES; changes++) {
      trace.push(far.slice(middle - changes - 1, middle + changes + 2));
      for (let k = -changes; k <= changes; k += 2) {
        const down = k === -changes || (k !== changes && far[middle + k - 1] < far[middle + k + 1]);
        let x = down ? far[middle + k + 1] : far[middle + k - 1] + 1;
        for (; x < a.length && x - k < b.length && a[x] === b[x - k]; x++) steps++;
        far[middle + k] = x;
        if (x >= a.length && x - k >= b.length) return followed(a, b, trace);
      }
      steps += changes;
      if (steps > MOST_STEPS) return null;
    }
    return null;
  };

  const followed = (a, b, trace) => {
    const found = [];
    let [x, y] = [a.length, b.length];
    for (let changes = trace.length - 1; changes >= 0; changes--) {
      const far = (k) => trace[changes][k + changes + 1];
      const k = x - y;
      const down = k === -changes || (k !== changes && far(k - 1) < far(k + 1));
      const before = down ? k + 1 : k - 1;
      const [fromX, fromY] = changes ? [far(before), far(before) - before] : [0, 0];
      for (; x > fromX && y > fromY; y--) found.push(["same", a[--x]]);
      if (changes) found.push(down ? ["ins", b[--y]] : ["del", a[--x]]);
    }
    return found.reverse();
  };

  /** Say how a text became another: [[kind, text] …], kind "same", "del" or "ins". It takes some milliseconds at most. */
  kshot.differences = (before, after) => {
    let [start, end] = [0, 0];
    const shorter = Math.min(before.length, after.length);
    while (start < shorter && before[start] === after[start]) start++;
    // whole words only: go back to the end of the last blank
    if (start < before.length || start < after.length) while (start > 0 && !/\s/.test(before[start - 1])) start--;
    while (end < shorter - start && before[before.length - 1 - end] === after[after.length - 1 - end]) end++;
    while (end > 0 && !/\s/.test(before[before.length - end])) end--;
    const [a, b] = [before.slice(start, before.length - end), after.slice(start, after.length - end)];
    const cut = (pattern) => {
      const [one, two] = [a.match(pattern) ?? [], b.match(pattern) ?? []];
      return one.length * two.length ? edits(one, two) : null;
    };
    const words = a.length + b.length < MOST_WORDS_OF ? cut(WORDS) : null;
    const inner = words ?? (a.includes("\n") || b.includes("\n") ? cut(LINES) : null) ?? [["del", a], ["ins", b]];
    const blank = ([kind, text], at) => kind === "same" && /^[ \t]+$/.test(text) && changes(at - 1) && changes(at + 1);
    const changes = (at) => inner[at] && inner[at][0] !== "same";
    // a blank between two words that changed belongs to them: one mark, not many
    const whole = inner.flatMap((piece, at) => (blank(piece, at) ? [["del", piece[1]], ["ins", piece[1]]] : [piece]));
    const pieces = [["same", before.slice(0, start)], ...whole, ["same", end ? before.slice(-end) : ""]];
    return pieces.reduce((joined, [kind, text]) => {
      const last = joined[joined.length - 1];
      if (last?.[0] === kind) last[1] += text;
      else if (text) joined.push([kind, text]);
      return joined;
    }, []);
  };

  const LONG = 700;
  const KEPT = 160;

  /** A long part that is the same on both sides: its ends, and a button for the rest. */
  const Same = ({ text }) => {
    const [whole, setWhole] = useState(false);
    if (whole || text.length < LONG) return text;
    return html`${text.slice(0, KEPT)}<button class="unfold" onClick=${() => setWhole(true)}>
      ${kshot.count(text.length - 2 * KEPT)} characters that are the same</button>${text.slice(-KEPT)}`;
  };

  /** One side of two texts: what only it has is marked. `pieces` are [kind, text]. */
  kshot.Marked = ({ pieces }) =>
    pieces.map(([kind, text]) =>
      kind === "same" ? html`<${Same} text=${text} />` : html`<${kind}>${text}</${kind}>`,
    );
}
