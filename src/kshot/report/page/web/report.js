// The script of report.html: it opens the samples that the file holds, when somebody wants to see them.
"use strict";

{
  const { html, render } = kshot;

  /** Read a compressed file of the page. */
  const read = async (name) => {
    const element = document.getElementById(name);
    if (!element) throw new Error(`${name} is not in this report`);
    const bytes = Uint8Array.from(atob(element.textContent), (letter) => letter.charCodeAt(0));
    const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(plain).json();
  };

  kshot.source = kshot.packedSource(read, "failed, flipped, wrong first");

  /** The samples of a run, or one of them, as the address says. */
  const Browser = () => {
    const { path, query } = kshot.useRoute();
    const [kind, runKey, part, n] = path;
    if (kind !== "run" || part !== "samples") return null;
    return html`<${kshot.Samples} key=${runKey} runKey=${runKey} n=${/^\d+$/.test(n) ? Number(n) : null} query=${query} />`;
  };

  const section = document.getElementById("samples");
  const place = document.getElementById("sample-browser");
  let shown = false;

  /** Show what the address names; a link into the samples brings them into view. */
  const follow = () => {
    const inside = location.hash.startsWith("#/run/");
    document.querySelectorAll("#samples [data-opens]").forEach((link) =>
      link.toggleAttribute("aria-current", inside && location.hash.startsWith(link.getAttribute("href"))),
    );
    if (!inside) return;
    if (!shown) render(html`<${Browser} />`, place);
    if (!shown || section.getBoundingClientRect().top > innerHeight || section.getBoundingClientRect().bottom < 0) {
      section.scrollIntoView({ block: "start" });
    }
    shown = true;
  };

  if (place) {
    addEventListener("hashchange", follow);
    follow();
  }
}
