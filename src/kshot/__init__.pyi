from kshot import (
    configs as configs,
    datasets as datasets,
    lmeval as lmeval,
    lookup as lookup,
    methods as methods,
    metrics as metrics,
    passages as passages,
    prompts as prompts,
    retrievers as retrievers,
    statistics as statistics,
)
from kshot.api import evaluate as evaluate, preview as preview
from kshot.backends.search.search_engine import IndexSearchEngine as IndexSearchEngine
from kshot.comparing import compare as compare
from kshot.core.budget import LimitReached as LimitReached
from kshot.core.content import MediaPart as MediaPart, TextPart as TextPart
from kshot.core.corpus import Chunk as Chunk, Corpus as Corpus, Passage as Passage
from kshot.core.errors import KshotError as KshotError
from kshot.core.metric import Measure as Measure
from kshot.core.protocols import Abilities as Abilities, LanguageModel as LanguageModel, SearchEngine as SearchEngine
from kshot.core.records import (
    Absent as Absent,
    Answers as Answers,
    AnyOption as AnyOption,
    AskFailed as AskFailed,
    Evidence as Evidence,
    Explained as Explained,
    Failed as Failed,
    Generate as Generate,
    Generated as Generated,
    Graded as Graded,
    Hit as Hit,
    Likelihood as Likelihood,
    Loglik as Loglik,
    Message as Message,
    Option as Option,
    Prompt as Prompt,
    Ranking as Ranking,
    Sample as Sample,
    Scored as Scored,
    Search as Search,
    TextLikelihood as TextLikelihood,
    Usage as Usage,
    ask as ask,
)
from kshot.core.task import Task as Task
from kshot.core.watcher import Watcher as Watcher
from kshot.datasets import (
    Dataset as Dataset,
    GenerationDataset as GenerationDataset,
    MultipleChoiceDataset as MultipleChoiceDataset,
    get_raw_dataset_loader as get_raw_dataset_loader,
    load_raw_dataset_from_file as load_raw_dataset_from_file,
)
from kshot.exporting import export as export
from kshot.index.ranking import Found as Found
from kshot.merging import merge as merge
from kshot.metrics import (
    F1 as F1,
    Accuracy as Accuracy,
    Bleu as Bleu,
    Chrf as Chrf,
    Em as Em,
    ExactMatch as ExactMatch,
    GPTEval as GPTEval,
    Greedy as Greedy,
    Metric as Metric,
    PassAtK as PassAtK,
    Perplexity as Perplexity,
    Rouge as Rouge,
    RougeLsum as RougeLsum,
    SquadEm as SquadEm,
    SquadF1 as SquadF1,
    Ter as Ter,
)
from kshot.reporting import write_report as write_report
from kshot.rescoring import score as score
from kshot.result import Result as Result, load as load
from kshot.retrievers import Retriever as Retriever
from kshot.runs.gates import GateFailed as GateFailed
from kshot.runs.listing import list_runs as list_runs
from kshot.runs.previews import Preview as Preview

__version__: str
