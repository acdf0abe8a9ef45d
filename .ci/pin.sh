#!/usr/bin/env bash
# Adds to each image of FILE... (docker-compose.yml, Dockerfile) the digest that its
# registry has for its tag now, as redis:7.4.11-alpine@sha256:..., or renews it. The
# digest is that of the answer itself, whatever the registry says it is. Files are
# written when all images of all files are known. `make pin` calls it.
#
# Images without a host in their name are Docker Hub's; PIN_REGISTRY=URL names
# another for them.
set -euo pipefail
hub=${PIN_REGISTRY:-https://registry-1.docker.io}
accept='application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json'
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

die() {
	echo "pin: $1; nothing was changed" >&2
	exit 1
}

get() { curl --silent --show-error --location --max-time 60 "$@"; }

# parameter NAME: of a WWW-Authenticate header on stdin.
parameter() { sed -n "s/.*[ ,]$1=\"\([^\"]*\)\".*/\1/p"; }

# fetch URL: a manifest into $work/manifest. A registry that wants a token says where to
# get one, also for images that are open to all.
fetch() {
	local url=$1 code challenge realm token
	code=$(get --dump-header "$work/headers" --output "$work/manifest" --write-out '%{http_code}' --header "Accept: $accept" "$url") || return 1
	if [[ $code == 401 ]]; then
		challenge=$(tr -d '\r' <"$work/headers" | grep -i '^www-authenticate: bearer ' | head -n 1) || return 1
		realm=$(parameter realm <<<"$challenge")
		token=$(get --fail --get --data-urlencode "service=$(parameter service <<<"$challenge")" \
			--data-urlencode "scope=$(parameter scope <<<"$challenge")" "$realm" | jq -re '.token // .access_token') || return 1
		code=$(printf 'header = "Authorization: Bearer %s"\n' "$token" |
			get --config - --output "$work/manifest" --write-out '%{http_code}' --header "Accept: $accept" "$url") || return 1
	fi
	[[ $code == 200 ]] || { echo "pin: $url: status $code" >&2; return 1; }
	jq -e '.schemaVersion == 2' "$work/manifest" >/dev/null
}

# images FILE: NAME:TAG of what it builds on and runs, without digests. An image
# without a tag is one that is built here.
images() {
	sed -nE 's/^(FROM|[[:space:]]*image:)[[:space:]]+([^[:space:]@]+:[^[:space:]@]+).*/\2/p' "$1"
}

[[ $# -gt 0 ]] || { echo "usage: pin.sh FILE..." >&2; exit 2; }
: >"$work/edits"
for image in $(for file in "$@"; do images "$file"; done | sort -u); do
	name=${image%:*} tag=${image##*:} registry=$hub
	case "$name" in
	*.*/* | *:*/*) registry=https://${name%%/*} name=${name#*/} ;;
	*/*) ;;
	*) name=library/$name ;;
	esac
	fetch "$registry/v2/$name/manifests/$tag" || die "no digest of $image"
	digest=sha256:$(sha256sum "$work/manifest" | cut -d ' ' -f 1)
	echo "$image@$digest"
	# After the digest a space or the line's end: another tag may begin with this one.
	printf 's#([[:space:]])%s(@sha256:[0-9a-f]{64})?([[:space:]]|$)#\\1%s@%s\\3#\n' "${image//./\\.}" "$image" "$digest" >>"$work/edits"
done
[[ -s $work/edits ]] || die "no image with a tag in $*"
for file in "$@"; do
	sed -E -f "$work/edits" "$file" >"$work/edited"
	cat "$work/edited" >"$file"
done
