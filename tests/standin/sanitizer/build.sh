#!/bin/sh
# Builds the stand-in and its program into the folder given: build.sh FOLDER
set -e
here=$(dirname "$0")
out=$1
flags="-std=c++17 -O1 -g -Wall -Wextra -Werror -I$here/../../../native"
mkdir -p "$out"
${CXX:-c++} $flags -shared -fPIC -fvisibility=hidden -o "$out/libsanitizer-public.so" "$here/sanitizer.cpp" -pthread -ldl
${CXX:-c++} $flags -o "$out/program" "$here/program.cpp" -L"$out" -lsanitizer-public -Wl,-rpath,"$out"
${CXX:-c++} $flags -shared -fPIC -fvisibility=hidden -Wl,-soname,libcuda.so.1 -o "$out/libcuda.so.1" "$here/cuda.cpp" -ldl
${CXX:-c++} $flags -o "$out/stressed" "$here/program.cpp" -L"$out" -l:libcuda.so.1 -Wl,-rpath,"$out"
