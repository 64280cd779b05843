#!/bin/sh
# Builds the stand-in for NCCL against the built stand-in for CUDA: build.sh FOLDER [CUDA include folder]
set -e
here=$(dirname "$0")
out=$1
include=${2:-/usr/local/cuda/include}
${CXX:-c++} -std=c++17 -O1 -g -Wall -Wextra -Werror -isystem "$include" -I"$here/.." -I"$here/../../../native" \
  -o "$out/nccl_program" "$here/program.cpp" -L"$out" -lstandin -Wl,-rpath,"$out" -pthread -ldl
