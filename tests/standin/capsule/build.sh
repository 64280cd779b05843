#!/bin/sh
# Builds the stand-in and its program into the folder given: build.sh FOLDER [CUDA include folder]
set -e
here=$(dirname "$0")
out=$1
flags="-std=c++17 -O1 -g -Wall -Wextra -Werror -isystem ${2:-/usr/local/cuda/include}"
mkdir -p "$out"
${CXX:-c++} $flags -shared -fPIC -fvisibility=hidden -o "$out/libcuda.so.1" "$here"/cupti.cpp "$here"/driver.cpp \
  "$here"/graphs.cpp "$here"/kernels.cpp "$here"/steps.cpp -Wl,-soname,libcuda.so.1 -pthread -ldl
ln -sf libcuda.so.1 "$out/libcupti.so.13"
${CXX:-c++} $flags -o "$out/program" "$here/program.cpp" "$out/libcuda.so.1" -Wl,-rpath,"$out" -pthread
