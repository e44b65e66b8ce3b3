from kshot.metrics.exact import (
    F1 as F1,
    Accuracy as Accuracy,
    Em as Em,
    ExactMatch as ExactMatch,
    SquadEm as SquadEm,
    SquadF1 as SquadF1,
)
from kshot.metrics.judge import GPTEval as GPTEval
from kshot.metrics.making import METRICS as METRICS, make_metric as make_metric
from kshot.metrics.metric import Metric as Metric
from kshot.metrics.overlap import Bleu as Bleu, Chrf as Chrf, Rouge as Rouge, RougeLsum as RougeLsum, Ter as Ter
from kshot.metrics.passatk import PassAtK as PassAtK
from kshot.metrics.perplexity import Greedy as Greedy, Perplexity as Perplexity
