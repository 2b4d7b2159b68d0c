#!/bin/sh
# The scaling table of this machine: 1, 2, 4, ... processes, up to the number of GPUs.
#
#     sh benchmarks/gpu.sh 8 --tflops 19.5 --bf16-tflops 312 --gbps 2039
#
# The arguments after the number are those of gpu.py. $PYTHON is the interpreter, and $CELLS the
# file of results, which must not be there yet.
set -eu

most=${1:?"usage: sh benchmarks/gpu.sh PROCESSES [arguments of gpu.py]"}
shift
cells=${CELLS:-gpu.jsonl}
folder=$(dirname "$0")
if [ -e "$cells" ]; then
    echo "'$cells' is there already: remove it, or set CELLS to another file" >&2
    exit 1
fi

processes=1
while [ "$processes" -le "$most" ]; do
    "${PYTHON:-python}" -m torch.distributed.run --standalone --nproc-per-node "$processes" \
        "$folder/gpu.py" --cells "$cells" "$@"
    processes=$((processes * 2))
done
"${PYTHON:-python}" "$folder/gpu.py" --cells "$cells" --show
