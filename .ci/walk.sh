#!/usr/bin/env bash
# Sends one message through a build with coverage: prints how many functions it comes
# through, and fails where docs/architecture.md's walk names one that it does not.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$(mktemp -d "${TMPDIR:-/tmp}/turnstile-walk.XXXXXX")
server=
trap '[[ -z $server ]] || kill "$server"; rm -rf "$work"' EXIT

go build -cover -covermode=atomic -coverpkg=turnstile/...,turnstile -o "$work/one" ./test/walk/one
redis-server --port 0 --unixsocket "$work/redis" --save '' --dir "$work" >"$work/log" &
server=$!
for ((i = 0; i < 100; i++)); do
	[[ ! -S $work/redis ]] || break
	sleep 0.1
done
GOCOVERDIR=$work "$work/one" "unix://$work/redis" "$work"
go run ./test/walk/measure "$work" docs/architecture.md
