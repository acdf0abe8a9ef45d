#!/usr/bin/env bash
# Gives the module the path where it is hosted: .ci/home.sh github.com/you/turnstile. It changes go.mod files,
# imports, docs and linters' rules, and commits nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
module=${1-}
part='[A-Za-z0-9._~-]+'
if ! [[ $module =~ ^[a-z0-9-]+(\.[a-z0-9-]+)+(/$part)+$ ]]; then
	echo "home: MODULE is \"$module\", and must be a host and a path: make home MODULE=github.com/you/turnstile" >&2
	exit 2
fi
if ! grep -qx 'module turnstile' go.mod; then
	echo "home: the module has its path already: $(sed -n 's/^module //p' go.mod)" >&2
	exit 2
fi

folders='(internal|pkg|cmd|test|examples|docs|chaos|bench|deploy)'
git ls-files -z --cached --others --exclude-standard -- '*.go' '*.md' '*.yml' '*.sh' '*go.mod' Makefile | grep -zvx '.ci/home.sh' | xargs -0 sed -E -i \
	-e "s,(^|[^A-Za-z0-9_/.-])turnstile/$folders\\b,\\1$module/\\2,g" \
	-e "s,^((import )?[[:blank:]]*([a-z]+ )?)\"turnstile\"\$,\\1\"$module\"," \
	-e "s,\"turnstile/([\"a-z]),\"$module/\1,g" \
	-e "s,turnstile/\\.\\.\\.,$module/...,g" \
	-e "s,(-local |local-prefixes: \\[|pkg: |-require=|-replace=)turnstile\\b,\\1$module,"
git ls-files -z -- '*go.mod' | xargs -0 sed -E -i "s,^(module |replace |[[:blank:]])turnstile( |/|\$),\\1$module\\2,"
git ls-files -z -- '*.go' | xargs -0 gofmt -w
