"""A dataset as a small class: eight questions about planets, with examples to show before them."""

from kshot import Em, GenerationDataset, MultipleChoiceDataset

PLANETS = ["Mercury", "Venus", "Mars", "Jupiter"]
ROWS = [
    ("Which planet is nearest to the sun?", 0),
    ("Which planet is the largest?", 3),
    ("Which planet is called red?", 2),
    ("Which planet has the great red spot?", 3),
    ("Which planet is about as large as the Earth?", 1),
    ("Which planet has the moons Phobos and Deimos?", 2),
    ("Which planet is the hottest?", 1),
    ("Which planet has the shortest year?", 0),
]
EXAMPLES = [
    ("Which planet has ninety-five known moons?", 3),
    ("Which planet turns backwards?", 1),
    ("Which planet has the highest volcano?", 2),
]


class Planets(MultipleChoiceDataset):
    """Which planet? Four options."""

    instruction = "{{question}}{{'\n' + options if options}}\nAnswer:"

    def load_raw_dataset(self, dataset_path, subset_name, evaluation_set, example_set):
        self.evaluation_data = [{"question": q, "answer": a} for q, a in ROWS]
        self.example_data = [{"question": q, "answer": a} for q, a in EXAMPLES]

    def format_instance(self, instance):
        return {"question": instance["question"], "options": PLANETS, "target_idx": instance["answer"]}


class PlanetNames(GenerationDataset):
    """Which planet? In the model's own words."""

    instruction = "{question}\nAnswer:"
    metrics = [Em()]
    extra_model_args = {"max_tokens": 8, "stop": "\n"}
    load_raw_dataset = Planets.load_raw_dataset

    def format_instance(self, instance):
        return {"question": instance["question"], "target": PLANETS[instance["answer"]]}
