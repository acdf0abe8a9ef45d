#!/usr/bin/env bash
# Builds what a release publishes, from a clone of HEAD: for each platform an archive with worker, gateway
# and enqueue, and for each of them its SBOM (CycloneDX); SHA256SUMS; an image if a container engine runs.
# The same commit and Go version give the same bytes, in any folder. docs/internals/releasing.md has the checklist.
#
#   .ci/release.sh          into DIST (dist); RELEASE_PLATFORMS="linux/amd64 ..." builds only these,
#                           RELEASE_IMAGE=no builds no image
#   .ci/release.sh notes    prints the text of the tag, from CHANGELOG.md
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

die() {
	echo "release.sh: $*" >&2
	exit 1
}

# A tag must be the version that the programs print, so that whoever builds the tag gets it, too.
number=$(sed -n 's/^const Number = "\(.*\)"$/\1/p' internal/version/version.go)
[[ -n $number ]] || die "internal/version has no Number"

if [[ ${1:-} == notes ]]; then
	awk -v heading="## [${number%-dev}]" 'index($0, heading) == 1 { found = 1; next }
		found && /^##/ { exit }
		found { print }' CHANGELOG.md | sed '1{/^$/d}'
	echo "All changes: CHANGELOG.md"
	exit
fi

tag=$(git describe --tags --exact-match --match 'v[0-9]*' HEAD 2>/dev/null || true)
if [[ -n $tag ]]; then
	version=${tag#v}
	[[ $version == "$number" ]] || die "the tag is $tag, but the programs say $number (internal/version)"
else
	version=$number+$(git rev-parse --short=12 HEAD)
fi
[[ -z $(git status --porcelain) ]] || echo "release.sh: changes that are not committed are left out" >&2

dist=${DIST:-dist}
mkdir -p "$dist"
dist=$(cd "$dist" && pwd)
rm -f "$dist"/turnstile_* "$dist/SHA256SUMS"
work=$(mktemp -d "${TMPDIR:-/tmp}/turnstile-release.XXXXXX")
trap 'rm -rf "$work"' EXIT
git clone --quiet . "$work/src"
git -C "$work/src" checkout --quiet --detach "$(git rev-parse HEAD)"
cd "$work/src"
committed=$(git log -1 --format=%ct)

for platform in ${RELEASE_PLATFORMS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64}; do
	folder=turnstile_${version}_${platform/\//_}
	out=$work/$folder
	mkdir "$out"
	# The Dockerfile builds with the same flags. -buildvcs: the programs print the revision.
	CGO_ENABLED=0 GOOS=${platform%/*} GOARCH=${platform#*/} \
		go build -trimpath -buildvcs=true -ldflags="-s -w" -o "$out/" ./cmd/worker ./cmd/gateway ./cmd/enqueue
	for program in worker gateway enqueue; do
		go tool -modfile=tools/go.mod cyclonedx-gomod bin -json -std -noserial -notimestamp -version "v$version" \
			-output "$out/$program.cdx.json" "$out/$program"
	done
	cp LICENSE "$out/"
	tar -C "$work" --sort=name --mtime="@$committed" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX -cf - "$folder" |
		gzip -n >"$dist/$folder.tar.gz"
	if [[ $platform == "$(go env GOHOSTOS)/$(go env GOHOSTARCH)" ]]; then
		says=$("$out/worker" --version)
		[[ $says == "worker version $number+"* ]] || die "the worker says: $says"
	fi
done
(cd "$dist" && sha256sum turnstile_* >SHA256SUMS && sha256sum --check --strict SHA256SUMS)

[[ ${RELEASE_IMAGE:-} != no ]] || exit 0
for engine in docker podman buildah; do
	if command -v "$engine" >/dev/null && "$engine" info >/dev/null 2>&1; then
		image=turnstile:${version/+/-} # a tag of an image has no +
		"$engine" build --tag "$image" .
		echo "image: $image ($engine)"
		exit
	fi
done
echo "image: SKIPPED, since neither docker, podman nor buildah runs here"
