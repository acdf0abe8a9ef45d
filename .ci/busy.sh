#!/bin/sh
# Runs a command TIMES times beside four programs that compute: .ci/busy.sh TIMES COMMAND...
# The programs end with this script, however it ends.
set -eu
times=$1
shift
hogs=
trap 'kill $hogs 2>/dev/null' EXIT
trap 'exit 130' INT
trap 'exit 143' HUP TERM
for _ in 1 2 3 4; do
  # After a kill -9 of this script nobody else would end it.
  sh -c 'while kill -0 "$0" 2>/dev/null; do i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done; done' $$ &
  hogs="$hogs $!"
done
for run in $(seq "$times"); do
  echo "busy: run $run of $times"
  GOFLAGS="${GOFLAGS:-} -count=1" "$@"
done
