"""Runs by each of the five ways of naming what is asked, by rows, files of LLMBox, sweeps, judges and repeats."""

import json
from pathlib import Path

from tests.frozen.cases import Cases
from tests.frozen.commands import Caller, lines, streams
from tests.frozen.materials import write_materials

MODEL = "-m made_up.py:Model"
PLANETS = "-d examples/planets.py:Planets"
BOTH = f"{PLANETS} -d examples/planets.py:PlanetNames"
TABLE = "-d examples/planets.csv --question question"
CHOICE = f"{TABLE} --options A,B,C,D --answer key"
LMEVAL = "--lmeval-root examples/lmeval"
LOOKUP = "--length 12 --samples 4"
BOOK = "-d passages --data book"

RUNS = f"""
class embedded       | run -m embedded {BOTH} --limit 3
class two models     | run {MODEL} {MODEL},seed=7 {BOTH} -k 2
class bm25           | run {MODEL} {PLANETS} -k 2 --retriever bm25
class nearest last   | run {MODEL} {PLANETS} -k 3 --retriever random,order=nearest_last
class lm_eval        | run {MODEL} {PLANETS} -k 2 --retriever lm_eval
class ppl            | run {MODEL} {PLANETS} --ranking-type ppl
class prob           | run {MODEL} {PLANETS} --ranking-type prob -k 1
class generation     | run {MODEL} {PLANETS} --ranking-type generation
class replies        | run -m made_up.py:Replies -d classes.py:Replies --dataset-path replies.jsonl --ranking-type generation
class held out       | run -m made_up.py:Replies,file=replies_held_out.jsonl -d classes.py:Replies --dataset-path replies_held_out.jsonl --ranking-type generation
class pattern        | run {MODEL} {PLANETS} --ranking-type generation --answer-pattern '(?i)answer is \\(?([A-D])'
class first token    | run {MODEL} {PLANETS} --ranking-type first_token
class auto           | run {MODEL} {PLANETS} --ranking-type auto --model-type chat
class acc norm       | run {MODEL} {PLANETS} --accuracy acc_norm
class letters        | run {MODEL} {PLANETS} --ranking-type prob --letters spaced
class chat           | run {MODEL} {BOTH} -k 2 --model-type chat --examples-as text --system-prompt 'Be brief.'
class description    | run {MODEL} {BOTH} -k 1 --description 'On planets.' --target-delimiter '\\n' --fewshot-delimiter '\\n---\\n'
class instruction    | run {MODEL} {PLANETS} --instruction 'Q: {{{{question}}}}' --limit 3
class metrics        | run {MODEL} -d examples/planets.py:PlanetNames --metric em,f1,bleu,chrf,ter --metric rouge
class squad          | run {MODEL} -d examples/planets.py:PlanetNames --metric squadem,squadf1,exactmatch
class cleanup        | run {MODEL} -d examples/planets.py:PlanetNames --metric em,f1 --cleanup first-capital
class subsets        | run {MODEL} -d classes.py:Subsets:plus,minus,words -k 2
class weighted       | run {MODEL} -d classes.py:Subsets:[sums] --average weighted
class pages          | run {MODEL} -d classes.py:Pages --rolling
class perplexity     | run {MODEL} -d classes.py:Pages
class token budget   | run -m embedded {PLANETS} -k 3 --max-example-tokens 30 --limit 2
class logprobs       | run -m embedded {PLANETS} --token-logprobs --limit 2
class failures       | run -m shop.py:Clerk,fails=10 -d shop.py:Prices --dataset-path 60
class graded         | run -m shop.py:Clerk,fails=5 -m shop.py:Clerk,right=90 -d shop.py:Graded --dataset-path 60
class exams          | run -m shop.py:Clerk -d shop.py:Exams -k 1
class categories     | run -m shop.py:Clerk -d shop.py:Prices --dataset-path 60 -k 3
class capitals       | run {MODEL} -d capitals.py:Capitals -d capitals.py:Cities -k 1
class shard 1        | run {MODEL} {BOTH} --shard 1/2
class shard 2        | run {MODEL} {BOTH} --shard 2/2
class reuse          | run {MODEL} {BOTH} -k 2 --limit 4 --reuse 'class two models'
class replayed       | run -m 'replay:class two models' {BOTH} -k 2
class gate           | run {MODEL} {PLANETS} --fail-under Accuracy=99 --fail-on-failed --junit junit.xml --step-summary summary.md
class json           | run {MODEL} {PLANETS} --json
repeats vote         | run {MODEL} -d examples/planets.py:PlanetNames --sample-num 3 --temperature 0.7
repeats letters      | run {MODEL} {PLANETS} --ranking-type generation --sample-num 3
repeats pass         | run -m made_up.py:Programmer -d classes.py:Programs --sample-num 4 --pass-at-k 1,2
judge rated          | run {MODEL} -d classes.py:Judged --judge made_up.py:Judge
judge scale          | run {MODEL} -d classes.py:Judged --judge made_up.py:Judge --judge-scale 1-12 --judge-rubric 'Is it kind?'
judge talks          | run {MODEL} -d classes.py:Talks --judge made_up.py:Judge,seed=3
judge pairs          | run {MODEL} -d classes.py:Judged --metric gpteval,pairwise=yes --judge made_up.py:Judge
sweep shots          | run {MODEL} {PLANETS} -k 0,1,2 --retriever random,bm25
sweep seeds          | run {MODEL} {PLANETS} -k 2 --retriever random --retriever-seeds 0..2
sweep temperature    | run {MODEL} -d examples/planets.py:PlanetNames --temperature 0,0.7
sweep ranking        | run {MODEL} {PLANETS} --ranking-type ppl,ppl_no_option,prob
sweep instructions   | run {MODEL} {PLANETS} --instruction 'Q: {{{{question}}}}' --instruction '{{{{question}}}}'
sweep own            | run {MODEL} {PLANETS},num_shots=0+2 -d examples/planets.py:PlanetNames
sweep lookup         | run -m embedded -d lookup:UR,NLFirst --length 40 --variant 'sep|small|bare' --samples 6 --shots 0,2
sweep lm-eval        | run {MODEL} -d lmeval:planets_choice {LMEVAL} -k 0,1,4
rows choice          | run {MODEL} {CHOICE}
rows shots           | run {MODEL} {CHOICE} -k 0,2 --ranking-type prob
rows target          | run {MODEL} {TABLE} --target A --metric em,f1 --instruction '{{question}}\\nReply:' --max-tokens 8
rows chat            | run {MODEL} {CHOICE} --ranking-type generation --model-type chat
rows slice           | run {MODEL} {CHOICE} --evaluation-set 'all[5:]'
config arc           | run arc.py {MODEL} --data ARC-c=arc.jsonl
config race          | run race.py {MODEL} --data race-middle=race.jsonl --data race-high=race.jsonl
config race chat     | run race.py {MODEL} --data race-middle=race.jsonl --data race-high=race.jsonl --model-type chat
config raw           | run raw.py {MODEL} --data raw=raw.jsonl --judge made_up.py:Grader --model-type chat
config own           | run own.py {MODEL} --data own=own.jsonl
config gsm8k         | run opencompass/configs/datasets/gsm8k/gsm8k_gen.py {MODEL}
config mmlu          | run opencompass/configs/datasets/mmlu/mmlu_gen.py {MODEL} --limit 2
config only          | run opencompass/configs/datasets/mmlu/mmlu_gen.py {MODEL} --only '*anatomy' --retriever bm25 -k 1
lm-eval group        | run {MODEL} -d lmeval:planets {LMEVAL}
lm-eval pattern      | run {MODEL} -d 'lmeval:planets_*' {LMEVAL} --limit 3
lm-eval chat         | run {MODEL} -d lmeval:planets_write {LMEVAL} --model-type chat --num-fewshot 2
lm-eval file         | run -m embedded -d lmeval:examples/lmeval/planets_choice.yaml --limit 2
passages systems     | run -m fts5 -m bm25 -m hybrid:rrf:fts5+bm25 -d handbook --limit 12
passages book        | run -m fts5 -m bm25,k1=1.2 {BOOK} --chunker windows:2/1 --chunker headings:200 --measures AC_MRR@3,AC_Recall@2
passages rewritten   | run -m fts5 {BOOK} --rewrite made_up.py:Rewriter
passages rag         | run {MODEL} {BOOK} --method rag --search bm25 --read 2 --judge made_up.py:Judge
passages weights     | run -m hybrid:fts5,weight=2+bm25 -d handbook --limit 6
lookup groups        | run -m embedded -d lookup:UR,UL,NLFirst,NLLast {LOOKUP}
lookup variants      | run {MODEL} -d lookup:UR --variant 'sep|small|bare' --variant 'nosep|same|math_rule_explained' --length 10,20 --samples 3
lookup chat          | run {MODEL} -d lookup:UR {LOOKUP} --model-type chat --shots 1
llmbox choice        | run {MODEL} -d llmbox/utilization/dataset/colours.py:Colours --dataset-path llmbox/rows -k 2
llmbox words         | run {MODEL} -d llmbox/utilization/dataset/words.py:Words --dataset-path llmbox/rows -k 1
"""


def make(cases: Cases) -> None:
    """Add the cases."""
    write_materials()
    with streams() as printed:
        caller = Caller(cases, printed)
        for name, words in lines(RUNS):
            caller.run(name, *words)
        cases.add("all options", json.dumps(json.loads(Path("class json/spec.json").read_text())["options"], indent=2))
