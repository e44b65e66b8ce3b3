"""Retrievers that weigh the prompts of a config's labels."""

import numpy as np
import pytest

from kshot.configs import entry
from kshot.core.errors import DataError

ICE = {
    "type": "opencompass.openicl.PromptTemplate",
    "template": {"A": "</E>{q} yes", "B": "</E>{q} no"},
    "ice_token": "</E>",
}
ROWS = {"train": [{"q": f"t{i}", "a": "AB"[i % 2]} for i in range(4)], "test": [{"q": "x", "a": "A"}]}
VECTORS = (np.eye(4, dtype=np.float32), np.asarray([[4, 3, 2, 1]], dtype=np.float32))


def made(**retriever):
    return entry(
        {
            "abbr": "weighed",
            "reader_cfg": {"input_columns": ["q"], "output_column": "a"},
            "infer_cfg": {
                "ice_template": ICE,
                "retriever": {"type": "MDLRetriever", "vectors": VECTORS, **retriever},
                "inferencer": {"type": "PPLInferencer"},
            },
        }
    )


def test_the_prompts_of_all_labels_are_weighed():
    asked = []

    def losses(examples, prompts):
        asked.append((examples, prompts))
        return [1.0] * len(prompts)

    options = {"ice_num": 2, "candidate_num": 3, "select_time": 2, "ice_template": ICE, "losses": losses}
    (prompt,) = made(**options).prompts(rows=ROWS)
    assert asked[0] == ("t0 yes\nt1 no\n\n", ["t0 yes\nt1 no\nx yes", "t0 yes\nt1 no\nx no"])
    assert len(asked) == 2
    assert prompt == asked[0][1]


def test_labels_and_a_template_of_its_own():
    asked = []

    def losses(examples, prompts):
        asked.append(list(prompts))
        return [1.0] * len(prompts)

    own = {
        "type": "opencompass.openicl.PromptTemplate",
        "template": {"A": "</E>Q {q} 1", "B": "</E>Q {q} 0"},
        "ice_token": "</E>",
    }
    options = {"candidate_num": 1, "select_time": 1, "ice_template": ICE, "prompt_template": own, "labels": ["B"]}
    made(**options, losses=losses).prompts(rows=ROWS)
    assert asked == [["t0 yes\nQ x 0"]]


def test_a_retriever_that_lacks_its_template():
    with pytest.raises(DataError, match="weighed: the retriever has no ice_template"):
        made(losses=max).prompts(rows=ROWS)
