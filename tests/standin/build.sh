#!/bin/sh
# Builds the stand-in and its program into the folder given: build.sh FOLDER [CUDA include folder]
set -e
here=$(dirname "$0")
out=$1
include=${2:-/usr/local/cuda/include}
flags="-std=c++17 -O1 -g -Wall -Wextra -Werror -isystem $include"
mkdir -p "$out"
${CXX:-c++} $flags -shared -fPIC -fvisibility=hidden -DCUPTI_LIB -o "$out/libstandin.so" \
  "$here/callbacks.cpp" "$here/activity.cpp" "$here/driver.cpp" "$here/pc_sampling.cpp" "$here/counters.cpp" "$here/dumps.cpp" -pthread -ldl
ln -sf libstandin.so "$out/libcuda.so.1"
ln -sf libstandin.so "$out/libcupti.so.13"
${CXX:-c++} $flags -o "$out/program" "$here/program.cpp" "$here/copies.cpp" "$here/pools.cpp" -L"$out" -lstandin -Wl,-rpath,"$out" -pthread -ldl
