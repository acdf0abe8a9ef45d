#!/usr/bin/env bash
# Looks for known holes in what PACKAGE... (all, by default) call, in the database
# GOVULNDB (https://vuln.go.dev). Fails if there are any. Where the database cannot be
# reached it says so, loudly, and succeeds: a build must not hang on somebody's server.
set -euo pipefail
database=${GOVULNDB:-https://vuln.go.dev}
[[ $# -gt 0 ]] || set -- ./...
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! reason=$(curl --fail --silent --show-error --location --max-time 30 --output /dev/null "$database/index/db.json" 2>&1); then
	echo >&2
	echo "######## NOT CHECKED for known vulnerabilities: $database cannot be reached ($reason)" >&2
	echo "######## Run .ci/vulnerabilities.sh where it can be." >&2
	echo >&2
	exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go build -modfile=tools/go.mod -o "$work/govulncheck" golang.org/x/vuln/cmd/govulncheck
# Twice: what is called on another system is not seen on this one.
for system in linux darwin; do
	echo "known vulnerabilities, $system:"
	GOOS=$system CGO_ENABLED=0 "$work/govulncheck" -db "$database" "$@"
done
