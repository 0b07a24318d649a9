#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# compile.sh nvcc ... -o OBJECT ...: compiles through ccache when it is there and keeps what the assembler says about registers,
# stack and spills in OBJECT.report, with the seconds of this run in its first line. tests/shim/compile_gate_test.cpp reads it.
object=
previous=
for argument in "$@"; do
    [ "$previous" = -o ] && object=$argument
    previous=$argument
done
cache=
command -v ccache >/dev/null 2>&1 && cache=ccache
if [ -z "$object" ]; then
    exec $cache "$@"
fi
start=$(date +%s)
said=$object.said
# the folder of the build does not matter to the code
root=$(cd "$(dirname "$0")/../.." && pwd)
CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=$root CCACHE_SLOPPINESS=time_macros,include_file_mtime,include_file_ctime \
    $cache "$@" 2>"$said"
code=$?
{
    echo "seconds $(($(date +%s) - start))"
    grep -E "^ptxas info|bytes stack frame" "$said"
} >"$object.report"
grep -vE "^ptxas info|bytes stack frame|^$" "$said" >&2
rm -f "$said"
exit $code
