#!/usr/bin/env bash
# What .ci/run leaves out, because it takes hours or draws at random. It runs before a change of the protocol
# is called done, and each night in hosted CI: .ci/proof.sh [PART...]. It prints the seed that it draws;
# PROOF_SEED repeats it. A part that fails does not end it; the exit code is 1 then.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export CI=true
seed=${PROOF_SEED:-$((1 + RANDOM * 32768 + RANDOM))}
parts=(tests cases explore fuzz chaos kills simulate planted agents outside)

part() {
	case $1 in
	tests) TURNSTILE_PROOF=true go test -race -shuffle="$seed" -count="${REPEAT:-10}" -timeout 120m ./... ;;
	cases) .ci/cases.sh -count=1 ;;
	explore) make explore EXPLORE=long ;;
	fuzz) make fuzz ;; # its findings are files, and draw nothing anew
	chaos) make chaos CHAOS=30m CHAOS_SEED="$seed" ;;
	kills) make kills SEED="$seed" ;;
	simulate) make simulate SEEDS=5000 SEED="$seed" ;;
	planted) make planted-defects simulate-defects chaos-defects ;;
	agents) make real-agents ;;
	outside) make build && .ci/outside.sh bin ;;
	*)
		echo "proof: no part $1, only: ${parts[*]}" >&2
		return 2
		;;
	esac
}

failed=()
for one in "${@:-${parts[@]}}"; do
	echo
	echo "== $one (PROOF_SEED=$seed)"
	began=$SECONDS
	# In a process of its own: bash ignores errors of a function in a condition.
	(part "$one") &
	wait $! || failed+=("$one")
	echo "proof: $one took $((SECONDS - began)) s"
done
[[ ${#failed[@]} -eq 0 ]] || {
	echo "proof: FAILED: ${failed[*]}; again with: PROOF_SEED=$seed .ci/proof.sh ${failed[*]}" >&2
	exit 1
}
