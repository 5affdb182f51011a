#!/bin/bash
# program.sh PROGRAM [MPIRUN] - the program as its user meets it: exit status, one clear line, signals, jobs of several
# ranks that are told once. Without MPIRUN the jobs are left out.
set -u
zeroth=$1
mpirun=${2:-}
here=$(cd "$(dirname "$0")/../.." && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
export XDG_CACHE_HOME=$dir/cache OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
failures=0

wrong() {
    echo "FAILED: $*"
    sed 's/^/    /' stdout stderr
    failures=$((failures + 1))
}

# accepted TEXT COMMAND...: status 0, and TEXT in the output.
accepted() {
    local says=$1
    shift
    "$@" >stdout 2>stderr || wrong "status $?: $*"
    cat stdout stderr | grep -qe "$says" || wrong "no \"$says\": $*"
}

# refused TEXT COMMAND...: another status, one line that begins with "error: " and has TEXT in it, nothing from a
# sanitizer.
refused() {
    local says=$1 status
    shift
    "$@" >stdout 2>stderr
    status=$?
    [ $status -ne 0 ] && [ $status -lt 126 ] || wrong "status $status: $*"
    [ "$(grep -c '^error: ' stderr)" = 1 ] || wrong "not one error: $*"
    grep -q "^error: .*$says" stderr || wrong "no \"$says\": $*"
}

cat >run.json <<END
{"model": "model.json", "from_scratch": true, "tokenizer": "bytes", "output_dir": "out", "max_steps": 4,
 "data": {"train": ["$here/data/tinyshakespeare.txt"], "sequence_length": 32}, "logging_steps": 1, "threads": 1,
 "train_batch_size": 6, "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}}
END
cat >model.json <<END
{"model_type": "llama", "vocab_size": 257, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
 "num_key_value_heads": 2, "intermediate_size": 64, "max_position_embeddings": 64, "tie_word_embeddings": true}
END
head -c 3000 "$here/data/tinyshakespeare.txt" >some.txt

# ---- words ----
accepted "zeroth train CONFIG" "$zeroth" --help
for command in train eval generate plan inspect convert info; do
    accepted "^zeroth $command " "$zeroth" $command --help
done
refused "no command \"trian\"" "$zeroth" trian
refused "usage: zeroth train" "$zeroth" train
refused "usage: zeroth info" "$zeroth" info x
refused "text and markdown" "$zeroth" info --format pdf
refused "takes no options" "$zeroth" inspect . max_steps=3
refused "no option --rnaks" "$zeroth" plan run.json --rnaks 2
refused "whole number" "$zeroth" plan run.json --ranks 2.5
refused "given twice" "$zeroth" plan run.json --ranks 2 --ranks 3
refused "wants a value" "$zeroth" plan run.json --ranks
refused "from 0 to 1" "$zeroth" plan run.json --ranks 2 --rank 2
refused "command line: there is no option \"max_stesp\"; did you mean \"max_steps\"" "$zeroth" train run.json max_stesp=3
refused "no such file" "$zeroth" inspect nothing

# ---- a model of its own ----
accepted "saved out/checkpoint-4" "$zeroth" train run.json optimizer.params.momentum=0.9
cat stdout stderr >first
accepted "note: optimizer.params.momentum has no effect" cat first
accepted "loss .* perplexity" "$zeroth" eval out some.txt data.sequence_length=32
refused "output_dir=x has no effect" "$zeroth" eval out some.txt output_dir=x
accepted "abc" "$zeroth" generate out --prompt abc --max-new-tokens 3
refused "whole number" "$zeroth" generate out --prompt abc --max-new-tokens 2.9
refused "whole number" "$zeroth" generate out --prompt abc --top-k 1.5
refused "seed=4 has no effect" "$zeroth" generate out --prompt abc seed=4
accepted "checkpoint at step 4" "$zeroth" inspect out
accepted "16.0000 bytes a parameter" "$zeroth" plan run.json
accepted "room for [0-9]* such ranks" "$zeroth" plan run.json
"$zeroth" inspect out >/dev/full 2>stderr && wrong "a full device is not noticed"
grep -q "^error: the output cannot be written" stderr || wrong "a full device is not told"
accepted "all 4 steps are done already" "$zeroth" train run.json resume_from_checkpoint=true

mkdir busy && touch busy/metrics.jsonl
refused "another run is writing to busy" flock busy/metrics.jsonl "$zeroth" train run.json output_dir=busy

# any end of generation_config.json ends a text: here every token is one
cp -r out/checkpoint-4 ends
echo "{\"eos_token_id\": [$(seq -s, 0 256)]}" >ends/generation_config.json
accepted "^abc$" "$zeroth" generate ends --prompt abc --max-new-tokens 3

for ends in '{"eos_token_id": "2"}' '{"eos_token_id": [2, "3"]}' '[]'; do
    echo "$ends" >ends/generation_config.json
    refused "generation_config.json.* should be" "$zeroth" generate ends --prompt abc
done

# ---- signals: taken by one thread, saved and ended, gone on from there as if nothing had been ----
accepted "saved long/checkpoint-40" "$zeroth" train run.json output_dir=long max_steps=40 threads=2
for signal in TERM INT USR1; do
    rm -f stdout stderr
    "$zeroth" train run.json output_dir=cut$signal max_steps=40 threads=2 >stdout 2>stderr &
    pid=$!
    until grep -qs "step 2/" stdout stderr || ! kill -0 $pid 2>/dev/null; do :; done
    [ $signal = TERM ] && for task in /proc/$pid/task/*/status; do
        echo "$(($((16#$(sed -n 's/^SigBlk:\t//p' "$task"))) & 0x4202))" # 1 << 15-1 | 1 << 2-1 | 1 << 10-1
    done | sort | uniq -c >blocked
    kill -$signal $pid
    wait $pid || wrong "status $? after SIG$signal"
    cat stdout stderr | grep -q "stopped by a signal at step\|saved cut$signal/checkpoint-40" || wrong "SIG$signal not obeyed"
    accepted "." "$zeroth" train run.json output_dir=cut$signal max_steps=40 threads=2 resume_from_checkpoint=true
    cmp -s long/checkpoint-40/model.safetensors cut$signal/checkpoint-40/model.safetensors ||
        wrong "other weights after SIG$signal"
done
[ "$(grep -v ' 16898$' blocked)" = "      1 0" ] || { cp blocked stdout; wrong "a computing thread takes signals"; }

# ---- several ranks ----
if [ -n "$mpirun" ]; then
    job() {
        $mpirun 3 "$zeroth" "$@"
    }
    refused "cannot open nothing.json" job train nothing.json
    refused "no option --rnaks" job plan run.json --rnaks 2
    refused "cannot open nothing.json" job plan nothing.json
    : >empty.txt
    refused "empty" job train run.json data.train=empty.txt
    refused "train_batch_size 7" job train run.json train_batch_size=7
    refused "no such file" job inspect nothing
    accepted "saved three/checkpoint-4" job train run.json output_dir=three zero_optimization.stage=3
    accepted "loss .* perplexity" job eval three some.txt data.sequence_length=32 zero_optimization.stage=3
    accepted "abc" job generate three --prompt abc --max-new-tokens 3
fi
[ $failures = 0 ] && echo "all as it should be"
exit $failures
