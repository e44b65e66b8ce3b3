// The frame of the viewer: header, which page the address means, help.
{
  const { html, useState, useEffect, useLayoutEffect, useRef, useErrorBoundary } = kshot;

  const KEYS = [
    ["j k ↓ ↑", "next and previous run or sample"],
    ["enter", "open it"],
    ["esc", "go back, or close"],
    ["/", "search"],
    ["x", "choose a run to compare"],
    ["?", "this help"],
  ];

  /** The page of a state, and where it is: [component, [[word, path, query], …]]. */
  const pageOf = ({ path, query }) => {
    const [kind, key, second, n] = path;
    const crumbs = [["Runs", []]];
    if (!kind) return [html`<${kshot.Home} query=${query} />`, crumbs];
    if (kind === "compare" && second) {
      return [html`<${kshot.Compare} key=${path.join("/")} a=${key} b=${second} query=${query} />`, [...crumbs, [`${key} and ${second}`, path]]];
    }
    if (kind !== "run" || !key || (n !== undefined && !/^\d+$/.test(n))) return [null, [...crumbs, ["Not found", path]]];
    crumbs.push([key, ["run", key]]);
    if (second !== "samples") return [html`<${kshot.Run} key=${key} runKey=${key} query=${query} />`, crumbs];
    crumbs.push(["Samples", ["run", key, "samples"], query]);
    // one component for the list and for a sample, so that the list keeps its place
    const samples = html`<${kshot.Samples} key=${key} runKey=${key} n=${n === undefined ? null : Number(n)} query=${query} />`;
    return [samples, n === undefined ? crumbs : [...crumbs, [n, path]]];
  };

  const Crumbs = ({ crumbs }) => html`<nav class="crumbs" aria-label="Breadcrumbs"><ol>
    ${crumbs.map(([word, path, query], at) =>
      at < crumbs.length - 1
        ? html`<li><a href=${kshot.link(path, query)} title=${word}>${word}</a></li>`
        : html`<li><span aria-current="page" title=${word}>${word}</span></li>`)}
  </ol></nav>`;

  const Header = ({ crumbs, onHelp }) => html`<header class="top"><div>
    <a class="brand" href="#/" aria-label="kshot: all runs"><span>kshot</span></a>
    <${Crumbs} crumbs=${crumbs} />
    <${kshot.ThemeButton} />
    <button class="button quiet" onClick=${onHelp} aria-label="Help" title="Keys (?)">?</button>
  </div></header>`;

  /** Keys and words. A dialog of the browser: it keeps the focus inside, and esc closes it. */
  const Help = ({ onClose }) => {
    const dialog = useRef();
    useEffect(() => dialog.current.showModal(), []);
    return html`<dialog ref=${dialog} aria-labelledby="help-title" onClose=${onClose}>
      <h2 id="help-title">Keys</h2>
      <table><tbody>
        ${KEYS.map(([keys, what]) => html`<tr><td>${keys.split(" ").map((key) => html`<kbd>${key}</kbd> `)}</td><td>${what}</td></tr>`)}
      </tbody></table>
      <p class="soft">Every page, filter and sample has its own link: copy the address to come back to it.</p>
      <button class="button" onClick=${() => dialog.current.close()}>Close</button>
    </dialog>`;
  };

  /** A new page starts at its top, and one that somebody comes back to where it was left. */
  const scrolls = [];
  let entry;
  const rememberScroll = () => {
    if (entry !== undefined) scrolls[entry] = scrollY;
  };
  const restoreScroll = () => {
    const known = history.state?.entry;
    entry = known ?? scrolls.push(0) - 1;
    if (known === undefined) history.replaceState({ entry }, "");
    scrollTo({ top: scrolls[entry] ?? 0, behavior: "instant" });
  };

  kshot.App = () => {
    const route = kshot.useRoute();
    const [help, setHelp] = useState(false);
    const [error, clearError] = useErrorBoundary();
    const main = useRef();
    const [page, crumbs] = pageOf(route);
    const place = route.path.join("/");
    kshot.useKeys({
      "?": () => setHelp(true),
      Escape: () => crumbs.length > 1 && kshot.go(crumbs[crumbs.length - 2][1], crumbs[crumbs.length - 2][2]),
    });
    useLayoutEffect(() => {
      clearError();
      document.title = [...crumbs.map(([word]) => word).reverse(), "kshot"].join(" · ");
      restoreScroll();
      if (document.activeElement === document.body) main.current?.focus({ preventScroll: true });
    }, [place]);
    const skip = (event) => {
      event.preventDefault(); // "#main" would be a state
      main.current.focus();
    };
    return html`
      <a class="skip" href="#main" onClick=${skip}>Skip to the content</a>
      <${Header} crumbs=${crumbs} onHelp=${() => setHelp(true)} />
      <main id="main" class="page" tabindex="-1" ref=${main}>
        ${error
          ? html`<h1>This page has a fault</h1><${kshot.Failure} error=${error} />`
          : page || html`<h1>There is no such page</h1><p class="empty"><a href="#/">All runs</a></p>`}
      </main>
      ${help && html`<${Help} onClose=${() => setHelp(false)} />`}`;
  };

  kshot.listen("scroll", rememberScroll);
  history.scrollRestoration = "manual";
  kshot.source ??= kshot.serverSource();
  kshot.render(html`<${kshot.App} />`, document.getElementById("app"));
}
