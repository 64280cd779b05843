#!/bin/sh
# Builds the stand-in for libcuda that replays run on: build.sh FOLDER [CUDA include folder]
set -e
here=$(dirname "$0")
include=${2:-/usr/local/cuda/include}
mkdir -p "$1"
# The driver's header gives functions their newest version as another name; here each has the name of its first line.
${CXX:-c++} -std=c++17 -O1 -g -Wall -Wextra -Werror -D__CUDA_API_VERSION_INTERNAL -isystem "$include" -shared -fPIC \
  -fvisibility=hidden -o "$1/libcuda.so.1" "$here/driver.cpp"
