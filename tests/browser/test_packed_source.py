"""How pages without a server read their files: only those of runs, again after an error, in the order of each task."""

import pytest

from kshot.report.page.report_page import REPORT_SCRIPTS, web_file

MADE = """
window.asked = [];
window.broken = false;
const cards = ["tea", "milk", "tea and milk"].map((answer, n) => ({ answer, n }));
const files = {
  "data/runs/run/columns.json": {
    total: 3, blocks: 2, metrics: ["headline"], downward: { headline: ["far"] },
    names: { task: ["far", "near"], model: ["m"], category: [], answer: ["tea", "milk", "tea and milk"] },
    columns: {
      n: [2, 0, 1], id: ["c", "a", "b"], text: ["", "", ""], target: ["", "", ""],
      task: [0, 1, 0], model: [0, 0, 0], category: [-1, -1, -1], answer: [2, 0, 1],
      verdict: { headline: "wrw" }, score: { headline: [24, 7, 23] },
    },
  },
  "data/runs/run/block-0.json": [cards[2], cards[0]],
  "data/runs/run/block-1.json": [cards[1]],
};
const read = async (name) => {
  asked.push(name);
  if (broken || !files[name]) throw new Error(`${name} cannot be read`);
  return files[name];
};
window.made = (order) => kshot.packedSource(read, order);
window.listed = async (source, query) => {
  for (;;) {
    const found = await source.samples("run", query).catch((error) => ({ state: "ready", error: error.message }));
    if (found.state === "ready") return found.error ?? found.rows.map(({ n }) => n);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
};
"""


@pytest.fixture
def page(browser):
    """A page with the scripts of a report, up to the source of its data, and files that a test knows."""
    page = browser.new_page()
    for name in REPORT_SCRIPTS[: REPORT_SCRIPTS.index("packed.js") + 1]:
        page.add_script_tag(content=web_file(name))
    page.add_script_tag(content=MADE)
    yield page
    page.close()


@pytest.mark.parametrize("key", ["../../uploads/evil", "..", ".", "a/b", "a%2fb", "", "a?b", "a b"])
def test_a_key_that_names_another_file_is_refused(page, key):
    said = page.evaluate(
        """async (key) => {
          const source = made();
          const failed = (asked) => asked.then(() => "", (error) => error.message);
          return Promise.all([source.run(key), source.facets(key), source.sample(key, 0), source.comparison("run", key)].map(failed));
        }""",
        key,
    )
    assert all(said)
    assert page.evaluate("asked") == []


def test_a_search_that_failed_may_be_tried_again(page):
    said = page.evaluate(
        """async () => {
          const source = made();
          await source.facets("run");
          broken = true;
          const first = await listed(source, { q: "milk" });
          broken = false;
          return [first, await listed(source, { q: "milk" })];
        }"""
    )
    assert said == ["data/runs/run/block-0.json cannot be read", [1, 2]]


def test_the_worst_come_first_whatever_the_direction_of_their_task(page):
    assert page.evaluate("listed(made(), { sort: 'score' })") == [2, 1, 0]


def test_a_report_lists_samples_as_it_holds_them_unless_another_order_is_wanted(page):
    assert page.evaluate("listed(made('wrong first'), {})") == [2, 0, 1]
    assert page.evaluate("listed(made('wrong first'), { reverse: '1' })") == [1, 0, 2]
    assert page.evaluate("listed(made('wrong first'), { sort: 'run' })") == [0, 1, 2]
    assert page.evaluate("listed(made(), {})") == [0, 1, 2]
