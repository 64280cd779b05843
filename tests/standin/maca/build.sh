#!/bin/sh
# Builds the stand-in for MACA into the folder given. lib/ has all of libmcpti; each other folder one that lacks something.
set -e
here=$(dirname "$0")
out=$1
flags="-std=c++17 -O1 -g -Wall -Wextra -Werror -fvisibility=hidden"
mkdir -p "$out/lib"
${CXX:-c++} $flags -shared -fPIC -Wl,-soname,libmcruntime.so -o "$out/lib/libmcruntime.so" "$here/runtime.cpp" -pthread
${CXX:-c++} $flags -o "$out/program" "$here/program.cpp" -L"$out/lib" -lmcruntime -Wl,-rpath,"$out/lib" -pthread
${CXX:-c++} $flags -shared -fPIC -o "$out/lib/libframework.so" "$here/user.cpp" -L"$out/lib" -lmcruntime -Wl,-rpath,"$out/lib"
for lacks in "" NEXT_RECORD CALLBACKS NAMES CLOCK; do
  folder=$out/lib
  [ -z "$lacks" ] || folder=$out/without_$lacks
  mkdir -p "$folder"
  ${CXX:-c++} $flags ${lacks:+-DWITHOUT_$lacks} -shared -fPIC -Wl,-soname,libmcpti.so -o "$folder/libmcpti.so" \
    "$here/mcpti.cpp" -L"$out/lib" -lmcruntime -Wl,-rpath,"$out/lib" -pthread
done
