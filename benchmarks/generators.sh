#!/bin/sh
# All generators on Cora, CiteSeer, Photo and Actor, scored by the zoo: the paper's Figure 3.
#
#     CGT_DATA_ROOT=... benchmarks/generators.sh [FOLDER] [further arguments of cgt benchmark]
#
# Results are appended to FOLDER/generators.jsonl. The same command resumes a stopped run.
set -eu
folder=${1:-generators}
[ $# -gt 0 ] && shift
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
exec python -m torch_geometric_cgt benchmark --generators all --datasets Cora,CiteSeer,Photo,Actor \
  --zoo --k 30 --num-neighbors 5 5 --seconds 1200 --memory 8 \
  --root "$folder/builds" --cells "$folder/generators.jsonl" --out "$folder" "$@"
