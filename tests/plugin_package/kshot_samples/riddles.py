from kshot import MultipleChoiceDataset


class Riddles(MultipleChoiceDataset):
    """Riddles with two answers each."""

    instruction = "{{riddle}}{{'\n' + options if options}}\nAnswer:"
    evaluation_set = "test"
    example_set = "train"

    def format_instance(self, instance):
        return dict(riddle=instance["riddle"], options=instance["answers"], target_idx=instance["right"])
