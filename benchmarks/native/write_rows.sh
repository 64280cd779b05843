#!/bin/sh
# Cost of a row to the thread that writes it: sh benchmarks/native/write_rows.sh
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 "$root/native/ring/generate_layout.py" "$root/src/warpsight/capture/segments/layout.py" "$work/layout.h"
"${CXX:-c++}" -O2 -std=c++17 -ftls-model=initial-exec -I"$work" -I"$root/native" \
  "$root/benchmarks/native/write_rows.cpp" "$root"/native/ring/*.cpp -o "$work/write_rows" -lpthread
mkdir "$work/raw"
"$work/write_rows" "$work/raw"
