#!/bin/sh
# Builds the stand-in for ROCm and its program into the folder given: build.sh FOLDER
set -e
here=$(dirname "$0")
out=$1
flags="-std=c++17 -O1 -g -Wall -Wextra -Werror"
mkdir -p "$out/lacking"
${CXX:-c++} $flags -shared -fPIC -fvisibility=hidden -Wl,-soname,librocprofiler-sdk.so.1 -o "$out/librocprofiler-sdk.so.1" \
  "$here/rocprofiler.cpp" -pthread -ldl
${CXX:-c++} $flags -shared -fPIC -fvisibility=hidden -Wl,-soname,librocprofiler-sdk.so.1 -DSTANDIN_LACKS \
  -Wno-unused-function -o "$out/lacking/librocprofiler-sdk.so.1" "$here/rocprofiler.cpp" -pthread -ldl
${CXX:-c++} $flags -shared -fPIC -fvisibility=hidden -Wl,-soname,librocprofiler-register.so.0 \
  -o "$out/librocprofiler-register.so.0" "$here/register.cpp"
${CXX:-c++} $flags -shared -fPIC -fvisibility=hidden -Wl,-soname,libamdhip64.so.6 -o "$out/libamdhip64.so.6" \
  "$here/hip.cpp" "$out/librocprofiler-register.so.0" -pthread -ldl
for folder in "$out" "$out/lacking"; do ln -sf librocprofiler-sdk.so.1 "$folder/librocprofiler-sdk.so"; done
ln -sf libamdhip64.so.6 "$out/libamdhip64.so"
${CXX:-c++} $flags -o "$out/program" "$here/program.cpp" -L"$out" -lamdhip64 -Wl,-rpath-link,"$out" -pthread
