#!/usr/bin/env bash
# Prints the newest patches of the images by the table of docs/security.md, and how old
# that table is. Then it looks for known holes in what PACKAGE... (all, by default) call, in the
# database GOVULNDB (https://vuln.go.dev). Fails if there are any. Where the database cannot be
# reached it says so, loudly, and succeeds: a build must not hang on somebody's server.
set -euo pipefail
database=${GOVULNDB:-https://vuln.go.dev}
[[ $# -gt 0 ]] || set -- ./...
cd "$(dirname "${BASH_SOURCE[0]}")/.."

echo "the images' newest patches (docs/security.md):"
sed -nE 's/^\| .([a-z]+). \| ([0-9.]+) \| ([0-9-]{10}) \| (.*) \|$/\1 \2 \3 \4/p' docs/security.md |
	while read -r image patch looked where; do
		days=$((($(date +%s) - $(date -d "$looked" +%s)) / 86400))
		echo "$image:$patch, looked up $days days ago ($looked: $where)"
		[[ $days -le 30 ]] || echo "######## Look for a newer patch of $image, and renew the table." >&2
	done

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
