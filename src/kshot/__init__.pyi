from kshot.api import (
    Preview as Preview,
)
from kshot.api import (
)
from kshot.api import (
    evaluate as evaluate,
)
from kshot.api import (
    preview as preview,
)
from kshot.api import (
    score as score,
)
from kshot.datasets import (
    Dataset as Dataset,
)
from kshot.datasets import (
    GenerationDataset as GenerationDataset,
)
from kshot.datasets import (
    MultipleChoiceDataset as MultipleChoiceDataset,
)
from kshot.datasets import (
    get_raw_dataset_loader as get_raw_dataset_loader,
)
from kshot.datasets import (
    load_raw_dataset_from_file as load_raw_dataset_from_file,
)
from kshot.errors import (
    KshotError as KshotError,
)
from kshot.metrics import (
    F1 as F1,
)
from kshot.metrics import (
    Accuracy as Accuracy,
)
from kshot.metrics import (
    Bleu as Bleu,
)
from kshot.metrics import (
    Em as Em,
)
from kshot.metrics import (
    GPTEval as GPTEval,
)
from kshot.metrics import (
    Metric as Metric,
)
from kshot.metrics import (
    PassAtK as PassAtK,
)
from kshot.metrics import (
    Perplexity as Perplexity,
)
from kshot.metrics import (
    Rouge as Rouge,
)
from kshot.records import (
    Answers as Answers,
)
from kshot.records import (
    Generate as Generate,
)
from kshot.records import (
    Loglik as Loglik,
)
from kshot.records import (
    Message as Message,
)
from kshot.records import (
    Option as Option,
)
from kshot.records import (
    Prompt as Prompt,
)
from kshot.records import (
    Sample as Sample,
)
from kshot.records import (
    ask as ask,
)
from kshot.running import (
    Result as Result,
)
from kshot.task import (
    Task as Task,
)

__version__: str
