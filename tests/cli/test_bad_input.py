"""One table of bad inputs, over all commands: each gives one message that names the fault, exit code 2, no traceback."""

import os
import re
import shlex
import shutil
import stat
from pathlib import Path

import pytest

from tests.cli.bad_files import FILES
from tests.commands import kshot

GOOD = "run -m echo.py:Echo -d capitals.py:Cities"
"""A command that works: what stands after it is at fault."""


CASES = """
# ---- commands and options
walk | walk
run --shoes 3 | --shoes
run --shoes 3 | See kshot run --help
passages check x --shoes | See kshot passages check --help
run --max-cost nan | --max-cost is nan
run --max-cost nan --max-cost 1 | given twice
run stray.py | stray.py
run -d | -d
run -m | -m
run -d "" -m embedded | dataset
run -d " " -m embedded | dataset
run -d capitals.py:Cities -m "" | model
run -d capitals.py:Cities -m : | model
run -d capitals.py:Cities -m , | model
preview | nothing to preview
preview -d | -d
preview -d bolq | bolq
preview capitals.py | capitals.py
preview config.py --diff nowhere.py | nowhere.py
list | what
list shoes | shoes
list datasets more | more
score | RUN
score a b | b
lookup | ACTION
lookup make | make
lookup generate | --group
lookup generate --group unique | --length
lookup generate --group best --length 5 | best
lookup generate --group unique --length five | five
lookup generate --group unique --length 0 | 0
lookup generate --group unique --length -3 | -3
lookup generate --group unique --length 100001 | 100001
lookup generate --group nonunique --length 1000000000 | 1000000000
lookup generate --group unique --length 10 --samples 0 | 0
lookup generate --group unique --length 10 --samples -5 | -5
lookup generate --group unique --length 10 --samples 99999999999 | 99999999999
lookup generate --group nonunique --length 10 --divisor 0 | divisor
lookup generate --group unique --length 10 --vocab a | vocab
lookup generate --group unique --length 10 --vocab aab | vocab
lookup generate --group unique --length 10 --out "a file" | a file
lookup generate --group unique --length 10 --seed many | --seed
passages | ACTION
passages walk | walk
passages check | FILE
passages check nowhere.json | nowhere.json
passages check questions.json | questions.json
passages check questions_empty.json | questions_empty.json
passages check binary.jsonl | binary.jsonl
passages check run_nothing | run_nothing
passages check ftp://example.org/x.json | ftp
passages ceiling -d boolq | boolq
passages ceiling -d handbook --chunker size9 | size9
passages ceiling -d handbook --measures AC_MRR@0 | AC_MRR@0
passages ceiling -d handbook --components most | most
passages ceiling -d handbook --within shelf | shelf
passages question -d handbook nine | nine
passages question -d handbook 99.99 | 99.99
passages question | CHAPTER
passages chunks -d handbook --chunker plugins.py:NoCut | cut
passages chunks -d handbook --chunker plugins.py:CutRaises | blunt
passages chunks -d handbook --chunker plugins.py:CutNumber | CutNumber
passages export nowhere out | nowhere
passages export run_nothing out | run_nothing
passages export run_foreign out | run_foreign
passages export | RUN
# ---- values of options
{good} -k many | --num-shots
{good} -k -1 | --num-shots
{good} -k 1.5 | --num-shots
{good} --limit 0 | --limit
{good} --limit -1 | --limit
{good} --limit 1e3 | --limit
{good} --seed -1 | --seed
{good} --seed 4294967296 | --seed
{good} --top-p 0 | --top-p
{good} --top-p 1.5 | --top-p
{good} --top-p nan | --top-p
{good} --top-k 0 | --top-k
{good} --temperature -1 | --temperature
{good} --temperature nan | --temperature
{good} --temperature inf | --temperature
{good} --temperature warm | --temperature
{good} --temperature 1e999 | --temperature
{good} --max-tokens 0 | --max-tokens
{good} --sample-num 0 | --sample-num
{good} --batch-size 0 | --batch-size
{good} --max-length 0 | --max-length
{good} --max-concurrency 0 | --max-concurrency
{good} --rpm 0 | --rpm
{good} --tpm 0 | --tpm
{good} --timeout 0 | --timeout
{good} --timeout nan | --timeout
{good} --patience -1 | --patience
{good} --price-in -1 | --price-in
{good} --price-in 1e308 | --price-in
{good} --price-in inf | --price-in
{good} --price-out nan | --price-out
{good} --max-cost -1 | --max-cost
{good} --max-cost nan | --max-cost
{good} --max-cost inf | --max-cost
{good} --max-requests 0 | --max-requests
{good} --max-requests -1 | --max-requests
{good} --max-requests many | --max-requests
{good} --pass-at-k 0 | --pass-at-k
{good} --pass-at-k 1,,2 | --pass-at-k
{good} --pass-at-k 3 | --pass-at-k
{good} --ranking-type best | --ranking-type
{good} --model-type boat | --model-type
{good} --average mean | --average
{good} --truncate right | --truncate
{good} --truncate left | it does not cut prompts
{good} --max-example-tokens -1 | --max-example-tokens
{good} --limit 1 --limit 2 | --limit
{good} --deterministic | --deterministic
{good} --answer-pattern "(" | --answer-pattern
{good} --answer-pattern "" | --answer-pattern
{good} --instruction "{% if" | template
{good} --instruction "{country" | brace
{good} --instruction "{shoe}" | shoe
{good} --metric emm | emm
{good} --metric "" | metric
{good} --metric em,em | EM
{good} --metric em,size=3 | size
{good} --metric plugins.py:NUMBER | metric
{good} --metric plugins.py:Shoe | Shoe
{good} --metric plugins.py:shout | metric
{good} --metric plugins.py:Rates | Rates
{good} --metric plugins.py:Nan | Nan
{good} --metric plugins.py:RateRaises | odd
{good} --metric gpteval | --judge
{good} --cleanup tidy | tidy
{good} --cleanup plugins.py:Shoe | Shoe
{good} --cleanup plugins.py:shout,loud=yes | loud
{good} --cleanup plugins.py:fails | dirty
{good} --cleanup plugins.py:NUMBER | NUMBER
{good} --retriever nearest -k 1 | nearest
{good} --retriever random | --retriever
{good} --retriever random,k9=1 -k 1 | k9
{good} --retriever random,seed=x -k 1 | seed
{good} --retriever random,order=up -k 1 | order
{good} --retriever bm25 -k 99 | 99
{good} --retriever fixk,fix_id_list=99 -k 1 | 99
{good} --retriever plugins.py:Outside -k 1 | 999
{good} --retriever plugins.py:Texts -k 1 | plugins.py:Texts
{good} --retriever plugins.py:Few -k 1 | plugins.py:Few
{good} --retriever plugins.py:RankRaises -k 1 | no ranks
{good} --retriever plugins.py:NoRanks -k 1 | plugins.py:NoRanks
{good} --retriever plugins.py:Rates -k 1 | retriever
{good} --retriever-seeds 0..3 | --retriever-seeds
{good} --retriever-seeds 3..0 -k 1 | --retriever-seeds
{good} --retriever-seeds x -k 1 | --retriever-seeds
{good} --retriever-seeds 0..999999999 -k 1 | 1,000,000,000 seeds
{good} -k {k_many} | 2,000 points (2,000 of --num-shots)
{good} -k {k_some} --temperature {k_some} | 2,500 points
run -m echo.py:Echo -d {long}.csv --question q --target t | too long
{good} --judge gpt9 | gpt9
{good} --judge-scale 1-5 | --judge-scale
{good} --judge echo.py:Echo --judge-scale 5-1 | --judge-scale
{good} --judge echo.py:Echo --judge-prompt nowhere.jinja | nowhere.jinja
{good} --metric gpteval --judge echo.py:Echo --judge-prompt judge.jinja | judge.jinja
{good} --metric gpteval --judge echo.py:Echo --judge-prompt judge_broken.jinja | judge_broken.jinja
{good} --metric gpteval --judge echo.py:Echo --judge-prompt judge_empty.jinja | judge_empty.jinja
{good} --judge echo.py:Echo --judge-prompt split | split
{good} --judge echo.py:Echo --judge-prompt latin.jinja | latin.jinja
{good} --search fts5 | --search
{good} --length 1000000000 -d lookup -m embedded | --length
{good} --evaluation-set "test[" -d boolq,dataset_path=rows.jsonl | test[
# ---- contradictions and options of one dataset
{good},num_shots=many | num_shots
{good},shoes=2 | shoes
{good},seed=1,seed=2 | seed
{good},limit=0 | --limit
run -d lookup,length=3 -m embedded | of length 3 do not exist
run -d handbook,chunker=x -m fts5 | there is no chunker 'x'
run -d config.py,limits=3 -m echo.py:Echo | there is no option 'limits'
run --dataset-path rows.jsonl | --dataset-path
run --ranking-type generation | --ranking-type
run -d lookup -m embedded --metric em | --metric
run -d lookup -m embedded --cleanup first-capital | --cleanup
run -d handbook -m fts5 --metric em | --metric
run -d handbook -m embedded | handbook
run -d capitals.py:Cities -m fts5 | capitals.py:Cities
run -d capitals.py:Cities | capitals.py:Cities
run -d handbook -m fts5 --search bm25 | --search
run config.py -m echo.py:Echo --metric em | --metric
# ---- datasets by name
run -m echo.py:Echo -d bolq | bolq
run -m echo.py:Echo -d boolqé | boolqé
run -m echo.py:Echo -d "mmlu:[stm]" | stm
run -m echo.py:Echo -d "lookup:XX" | XX
run -m echo.py:Echo -d "handbook:99" | '99'
run -m echo.py:Echo -d nowhere.py:Mine | nowhere.py
run -m echo.py:Echo -d capitals.py:Other | Other
run -m echo.py:Echo -d capitals.py:WORLD | WORLD
run -m echo.py:Echo -d split:Mine | split
run -m echo.py:Echo -d syntax.py:X | syntax.py:1
run -m echo.py:Echo -d raises.py:X | raises.py:2
run -m echo.py:Echo -d exits.py:X | exits.py
run -m echo.py:Echo -d interrupts.py:X | interrupts.py
run -m echo.py:Echo -d nothing.py:X | nothing.py
run -m echo.py:Echo -d missing.py:X | nothing_like_this
run -m echo.py:Echo -d emptyfile.py:X | emptyfile.py
run -m echo.py:Echo -d latin.py:X | latin.py
run -m echo.py:Echo -d nul.py:X | nul.py
run -m echo.py:Echo -d deep.py:X | deep.py
run -m echo.py:Echo -d "~nobody9/x.py:X" | nobody9
# ---- dataset classes
{own}NoRows | no_rows
{own}RowsAreNone | rows_are_none
{own}RowsAreTexts | row 0
{own}RowsAreEndless | rows_are_endless
{own}LoadRaises | load_raw_dataset
{own}LoadExits | load_raw_dataset
{own}NoInstruction | instruction
{own}InstructionIsNumber | instruction
{own}BadTemplate | template
{own}OpenBrace | brace
{own}Unknown | question
{own}NoMetrics | metrics
{own}MetricIsClass | Em
{own}MetricIsNumber | 7
{own}MetricsIsText | metrics
{own}MetricUnknown | emm
{own}MetricTwice | EM
{own}FormatRaises | ZeroDivisionError
{own}FormatIsList | list
{own}NoTarget | target
{own}BadArguments | temprature
{own}ArgumentsAreList | extra_model_args
{own}Plain | plain
{own}PostLoses | post_processing
{own}References | references
{own}Delimiter | fewshot_delimiter
{own}Keep | keep_whitespace
{own}SameIds | '1'
{own}InitRaises | not today
{own}Category | kind
{own}NoOptions --ranking-type generation | options
{own}OptionsAreText --ranking-type generation | options
{own}EmptyOption --ranking-type generation | option 1
{own}Target9 --ranking-type generation | 9
{own}TargetIsText --ranking-type generation | 'A'
{own}Choice | Loglik
{own}Choice --ranking-type generation -k 9 --example-set x --cot base | cot
# ---- files of rows
{rows}nowhere.jsonl | nowhere.jsonl
{rows}split | split
{rows}model_empty | model_empty
{rows}empty.jsonl | boolq
{rows}blank.jsonl | boolq
{rows}broken.jsonl | broken.jsonl:2
{rows}cut.jsonl | cut.jsonl:1
{rows}list.jsonl | list.jsonl:1
{rows}number.jsonl | number.jsonl:1
{rows}latin.jsonl | latin.jsonl
{rows}utf16.jsonl | utf16.jsonl
{rows}binary.jsonl | binary.jsonl
{rows}nul.jsonl | nul.jsonl
{rows}deep.jsonl | deep.jsonl
{rows}deepobject.jsonl | deepobject.jsonl
{rows}huge.jsonl | huge.jsonl:1
{rows}digits.jsonl | digits.jsonl
{rows}columns.jsonl | passage
{rows}objects.jsonl | row 0
{rows}array.json | array.json:1
{rows}text.json | text.json
{rows}numbers.json | numbers.json
{rows}splits.json | validation
{rows}notjson.json | notjson.json:1
{rows}empty.json | empty.json
{rows}nothing.json | boolq
{rows}ragged.csv | ragged.csv:3
{rows}long.csv | long.csv:2
{rows}twice.csv | passage
{rows}quote.csv | quote.csv
{rows}empty.csv | boolq
{rows}header.csv | boolq
{rows}nul.csv | row 0
{rows}damaged.parquet | damaged.parquet
{rows}text.parquet | text.parquet
{rows}empty.parquet | empty.parquet
{rows}rows.xml | .xml
{rows}rows | rows
{rows}rows.pkl | .pkl
{rows}rows.jsonl --evaluation-set "validation[5:2:1]" | validation[5:2:1]
{rows}rows.jsonl --evaluation-set "validation[9:]" | boolq
{rows}rows.jsonl -k 2 | rows.jsonl
{rows}"{subset}/{split}.jsonl" | jsonl
{rows}"~nobody9/rows.jsonl" | nobody9
{rows}/dev/null | /dev/null
# ---- configs
{config}nowhere.py | nowhere.py
{config}config_syntax.py | config_syntax.py
{config}config_none.py | config_none.py
{config}config_empty.py | config_empty.py
{config}config_number.py | config_number.py
{config}config_texts.py | config_texts.py
{config}config_type.py | MagicInferencer
{config}config_retriever.py | BestRetriever
{config}config_evaluator.py | MoodEvaluator
{config}config_template.py | prompt_template
{config}config_reader.py | config_reader.py
{config}config_column.py | gold
{config}config_rows.py | nowhere.jsonl
{config}config_n.py | -1
{config}config_twice.py | 'x'
{config}config_noinfer.py | infer
{config}config_raises.py | config_raises.py
{config}config_base.py | nowhere
{config}config_os.py | config_os.py
{config}config_deep.py | config_deep.py
{config}latin.py | latin.py
{config}config.py --config-root nowhere | nowhere
{config}config.py --retriever nearest -k 1 | nearest
{config}config.py --data x=nowhere.jsonl | nowhere.jsonl
{config}config.py --data x=broken.jsonl | broken.jsonl
# ---- models
{model}gpt9 | gpt9
{model}hf: | hf:
{model}hf | hf
{model}hf:./nowhere | ./nowhere
{model}hf:nobody/nothing | nobody/nothing
{model}hf:model_empty | model_empty
{model}hf:model_config | config.json
{model}hf:model_list | config.json
{model}hf:model_weights | model.safetensors
{model}hf:model_noweights | model_noweights
{model}hf:model_notokenizer | model_notokenizer
{model}hf:model_shards | model-2.safetensors
{model}hf:model_index | model.safetensors.index.json
{model}hf:model_adapter | model_adapter
{model}hf:rows.jsonl | rows.jsonl
{model}hf:embedded,dtype=float12 | float12
{model}hf:embedded,batch_size=0 | batch_size
{model}hf:embedded,batch_size=many | batch_size
{model}hf:embedded,padding_side=up | padding_side
{model}hf:embedded,compile=perhaps | compile
{model}hf:embedded,compile=yes --deterministic | compile=yes
{model}hf:embedded,shoes=1 | shoes
{model}hf:embedded,device=gpu:x | gpu:x
{model}hf:embedded --chat-template nowhere.jinja | nowhere.jinja
{model}hf:embedded --chat-template broken.jinja --model-type chat | broken.jinja
{model}hf:embedded --chat-template latin.jinja --model-type chat | latin.jinja
{model}embedded,shoes=1 | shoes
{model}embedded,batch_size=0 | batch_size
{model}embedded,truncate=right | truncate
{model}embedded:x | x
{model}openai: | openai
{model}openai:gpt | OPENAI_API_KEY
{model}anthropic:claude --model-type chat | ANTHROPIC_API_KEY
{model}openai:gpt --base-url localhost:8000 | --base-url
{model}openai:gpt --base-url http:// | --base-url
{model}openai:gpt --base-url ftp://x/v1 | --base-url
{model}openai:gpt --base-url "http://a b/v1" | --base-url
{model}openai:gpt --base-url http://x:99999/v1 | --base-url
{model}openai:gpt --base-url http://u:p@x/v1 | --base-url
{model}openai:gpt --base-url http://127.0.0.1:9/v1 --patience 0 | http://127.0.0.1:9/v1
{model}openai:gpt,shoes=1 --base-url http://127.0.0.1:9/v1 | shoes
{model}openai:gpt,rpm=0 --base-url http://127.0.0.1:9/v1 | rpm
{model}replay: | replay
{model}replay:nowhere.jsonl | nowhere.jsonl
{model}replay:empty.jsonl | empty.jsonl
{model}replay:recorded_number.jsonl | recorded_number.jsonl:1
{model}replay:recorded_noprompt.jsonl | recorded_noprompt.jsonl:1
{model}replay:recorded_broken.jsonl | recorded_broken.jsonl:2
{model}replay:recorded_mixed.jsonl | recorded_mixed.jsonl:2
{model}replay:binary.jsonl | binary.jsonl
{model}replay:deep.jsonl | deep.jsonl
{model}replay:split | split
{model}replay:/dev/zero | /dev/zero
{model}echo.py:NoServe | serve
{model}echo.py:BadName | name
{model}echo.py:NoName | name
{model}echo.py:BadFingerprint | fingerprint
{model}echo.py:BadAnswers | answers
{model}echo.py:Raises | no weights
{model}echo.py:Exits | echo.py:Exits
{model}echo.py:Needs | key
{model}echo.py:Breaks | unplugged
{model}echo.py:Leaves | never answered
{model}echo.py:Other | str
{model}echo.py:Foreign | not waiting
{model}echo.py:NotAnIterator | echo
{model}echo.py:slow | async
{model}echo.py:two | echo.py:two
{model}echo.py:number | 7
{model}echo.py:WORD | WORD
{model}echo.py:Shoe | Shoe
{model}echo.py:Echo,words=many | words
{model}echo.py | echo.py
{model}nowhere.py:Echo | nowhere.py
{model}syntax.py:Echo | syntax.py:1
{model}exits.py:Echo | exits.py
{model}echo.py:Echo -m echo.py:Echo,words=2 -m echo.py:Echo,words=2x | words
# ---- search engines, chunkers, passages
{search}ftss5 | ftss5
{search}fts5:x | x
{search}bm25:memory | memory
{search}bm25,k1=high | k1
{search}bm25,k1=nan | k1
{search}bm25,shoes=1 | shoes
{search}bm25,stem=klingon | klingon
{search}hybrid:bm25+shoe | shoe
{search}hybrid:fts5+hybrid | hybrid
{search}hybrid:fts5,weight=heavy+bm25 | heavy
{search}rerank:x | rerank
{search}rerank:./nowhere@fts5 | ./nowhere
{search}dense:./nowhere | ./nowhere
{search}dense:model_empty | model_empty
{search}late,precision=float8 | precision
{search}replay:run.trec | run.trec
{search}replay:run_short.trec | run_short.trec
{search}replay:run_twice.trec | run_twice.trec
{search}replay:runs.json | runs.json
{search}replay:runs_lists.json | runs_lists.json
{search}fts5 --chunker size9 | size9
{search}fts5 --chunker plugins.py:NoCut | cut
{search}fts5 --chunker plugins.py:NoChunks | no passages
{search}fts5 --chunker plugins.py:Shoe | Shoe
{search}fts5 --measures AC_MRR@x | AC_MRR@x
{search}fts5 --measures nDCG@10 | nDCG@10
{search}fts5 --within shelf | shelf
{search}fts5 --components most | most
{search}fts5 --queries nowhere.json | nowhere.json
{search}fts5 --queries queries.json | queries.json
{search}fts5 --rewrite gpt9 | gpt9
{search}embedded --method rag --search ftss5 | ftss5
{search}embedded --method walk | --method
{search}embedded --method rag --read 0 | --read
run -m fts5 -d passages | --data
run -m fts5 -d passages --data nowhere.json | nowhere.json
run -m fts5 -d passages --data questions.json | questions.json
run -m fts5 -d fastbook --data run_nothing | run_nothing
run -m fts5 -d beir | --data
run -m fts5 -d beir --data nowhere | nowhere
run -m fts5 -d beir --data beir | beir
run -m fts5 -d beir --data beir_noid | beir_noid
run -m fts5 -d beir --data beir_qrels | test.tsv
run -m fts5 -d beir --data beir_foreign | q9
run -m fts5 -d beir --data beir_twice | d1
run -m fts5 -d beir:shoes --data beir_twice | shoes
run -m fts5 -d trec --data trec | trec
run -m fts5 -d trec --data trec_bad | qrels=FILE
run -m fts5 -d trec --data topics=beir_noid/queries.jsonl --data qrels=trec_bad/qrels.txt --data corpus=beir/corpus.jsonl | trec_bad/qrels.txt
run -m fts5 -d trec --data topics=nowhere.txt --data qrels=trec_bad/qrels.txt --data corpus=beir/corpus.jsonl | nowhere.txt
run -m fts5 -d beir --data beir_twice --chunker words | --chunker
# ---- token lookup
{lookup} --length 0 | 0
{lookup} --length -5 | -5
{lookup} --length ten | --length
{lookup} --length 10,,20 | --length
{lookup} --samples 0 | --samples
{lookup} --shots -1 | --shots
{lookup} --variant shoes | shoes
{lookup} --variant "sep|big" | sep|big
{lookup} --templates nowhere.json | nowhere.json
{lookup} --templates templates.json | templates.json
{lookup} --templates templates_unknown.json | templates_unknown.json
{lookup} --data nowhere.jsonl | nowhere.jsonl
{lookup} --data lookup.jsonl | lookup.jsonl
{lookup} --data lookup_numbers.jsonl | lookup_numbers.jsonl
{lookup} --data broken.jsonl | broken.jsonl
{lookup} --data empty.jsonl | empty.jsonl
{lookup} --data rows.jsonl --data lookup.jsonl | --data
# ---- run folders
score nowhere | nowhere
score "a file" | a file
score run_nothing | run_nothing
score run_empty | run_empty
score run_broken | run_broken
score run_list | run_list
score run_foreign | run_foreign
score run_identity | run_identity
score run_datasets | run_datasets
score run_models | run_models
score run_options | run_options/spec.json
score run_unknown | run_unknown/spec.json
score run_facts | run_facts
score run_lengths | run_lengths
score run_shots | run_shots
score run_within | run_within
score run_tasks | run_tasks
score run_binary | run_binary
score run_deep | run_deep
score run_nojournal | run_nojournal
compare nowhere nowhere | nowhere
compare "a file" run_nothing | a file
compare run_nothing run_empty | run_nothing
compare run_empty | run_empty
compare run_broken run_broken | run_broken
compare run_list x | run_list
compare run_foreign x | run_foreign
compare run_identity x | run_identity
compare run_models x | run_models
compare run_tasks x | run_tasks
compare run_facts x | run_facts
compare run_binary x | run_binary
compare run_deep x | run_deep
compare run_nojournal run_nojournal | has not come to its end
compare rows.jsonl rows.jsonl | rows.jsonl
compare "" | spec.json
compare x y --flips few | --flips
compare x y --flips=-3 | --flips
{good} --reuse nowhere | nowhere
{good} --reuse run_nothing | run_nothing
{good} --reuse binary.jsonl | binary.jsonl
{good} --reuse rows.jsonl | rows.jsonl
{out} --out "a file" | a file
{out} --out "a file/run" | a file/run
{out} --out run_other | run_other
{out} --out /proc/nowhere/run | /proc/nowhere/run
{out} --out "" | --out
{out} --out run_long{long} | run_long
"""

PREFIXES = {
    "k_many": ",".join(map(str, range(2000))),
    "k_some": ",".join(map(str, range(50))),
    "good": GOOD,
    "own": "run -m echo.py:Echo -d own.py:",
    "rows": "run -m echo.py:Echo --ranking-type generation -d boolq --dataset-path ",
    "config": "run -m echo.py:Echo ",
    "model": "run -d capitals.py:Cities -m ",
    "search": "run -d handbook -m ",
    "lookup": "run -d lookup:UR -m embedded",
    "out": GOOD,
    "long": "x" * 300,
}


def table():
    for line in CASES.strip().splitlines():
        if not line.startswith("#"):
            whole = re.sub(r"\{(\w+)\}", lambda found: PREFIXES.get(found[1], found[0]), line)
            command, _, named = whole.rpartition(" | ")
            yield pytest.param(command, named, id=line.rpartition(" | ")[0])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("bad input")
    for name, content in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


@pytest.fixture
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "KSHOT_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    yield folder
    shutil.rmtree(folder / "out", ignore_errors=True)


def refused(capsys, arguments, named):
    done = kshot(capsys, *arguments)
    said = done.err.splitlines()
    assert done.code == 2, done
    assert len(said) == 1, said
    assert said[0].startswith("kshot: ")
    if named not in said[0] and "pip install 'kshot[" in said[0]:
        pytest.skip(said[0])  # an extra is not installed here
    assert named in said[0], said[0]
    assert "Traceback" not in done.err + done.out
    assert "fault in kshot" not in said[0]
    assert len(said[0]) < 2000


@pytest.mark.parametrize(("command", "named"), list(table()))
def test_one_message_names_the_fault(command, named, here, capsys):
    arguments = shlex.split(command)
    if arguments[0] == "run" and "--out" not in arguments:
        arguments += ["--out", "out"]
    refused(capsys, arguments, named)


def test_the_table_is_long():
    assert len(list(table())) >= 300


def test_what_is_not_at_fault_runs(here, capsys):
    assert kshot(capsys, *GOOD.split(), "--out", "out").code == 0


@pytest.mark.skipif(os.geteuid() == 0 if hasattr(os, "geteuid") else True, reason="root may read everything")
@pytest.mark.parametrize("name", ["rows.jsonl", "split", "echo.py", "run_foreign"])
def test_what_may_not_be_read(name, tmp_path, folder, capsys, monkeypatch):
    shutil.copytree(folder, tmp_path / "all")
    monkeypatch.chdir(tmp_path / "all")
    Path(name).chmod(0)
    commands = {
        "rows.jsonl": "run -m echo.py:Echo --ranking-type generation -d boolq --dataset-path rows.jsonl",
        "split": "run -m echo.py:Echo --ranking-type generation -d boolq --dataset-path split/rows.jsonl",
        "echo.py": GOOD,
        "run_foreign": "score run_foreign",
    }
    try:
        refused(capsys, commands[name].split(), name)
    finally:
        Path(name).chmod(stat.S_IRWXU)
