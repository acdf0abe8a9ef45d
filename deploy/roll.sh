#!/bin/sh
# Replaces the workers of docker-compose.yml by new ones with the image and the settings that Compose has for them now: starts as
# many new ones as run, waits until they are healthy, and then stops the old ones, which drain. At no time do fewer work; for a
# while there are twice as many.
#
#   docker compose build && deploy/roll.sh
#   COMPOSE_FILE=docker-compose.yml:deploy/compose-agents.yml deploy/roll.sh
#
# If a new one does not become healthy, or after Ctrl-C, the new ones are stopped and kept, and the old ones run on: exit code 1,
# or 130.
# shellcheck disable=SC2086 # lists of containers are words
set -eu
cd "$(dirname "$0")/.."

running() { docker compose ps --quiet worker; }
started() { running | grep -vxF "$old"; } # the running ones that are not old
short() { printf ' %.12s' "$@"; }

# end CODE SENTENCE
end() {
	echo "roll: $2" >&2
	exit "$1"
}

# undo CODE REASON: stops the new workers. Without their restart policy Docker's next start does not start them again.
undo() {
	trap '' INT TERM HUP
	code=$1 reason=$2
	new=$(started) || end "$code" "$reason; no new worker runs, $n old ones run on"
	set -- $new
	docker stop "$@" >/dev/null || true
	docker update --restart no "$@" >/dev/null || true
	end "$code" "$reason; the new ones are stopped, $n old ones run on. See docker logs$(short "$1").
The next roll removes what is stopped, or docker rm$(short "$@")"
}

docker compose rm --force worker >/dev/null # what an earlier roll has left
old=$(running)
n=$(printf %s "$old" | grep -c '' || true)
set -- worker
[ "$n" -eq 0 ] || set -- --no-deps --scale "worker=$((2 * n))" worker

trap 'undo 130 interrupted' INT TERM HUP
docker compose up --detach --no-recreate "$@" || undo 1 "docker compose up failed"
new=$(started) || undo 1 "docker compose up has started nothing"
echo "roll: waiting until the new workers are healthy:$(short $new)"
while
	states=$(docker inspect --format '{{.Name}} is {{.State.Status}} and {{if .State.Health}}{{.State.Health.Status}}{{else}}without a health check{{end}}, restarts: {{.RestartCount}}' $new)
	printf '%s\n' "$states" | grep -qv ' is running and healthy, restarts: 0$'
do
	if failed=$(printf '%s\n' "$states" | grep -vE ' is running and (starting|healthy), restarts: 0$'); then
		undo 1 "a new worker failed: $failed"
	fi
	sleep 1
done

if [ "$n" -gt 0 ]; then
	trap 'end 130 "interrupted; the new workers work, the old ones drain. When they have ended: docker rm$(short $old)"' INT TERM HUP
	echo "roll: the new workers work, the old ones drain:$(short $old)"
	docker stop $old >/dev/null || end 1 "the new workers work; not every old one could be stopped: docker rm --force$(short $old)"
	docker rm $old >/dev/null || end 1 "the new workers work; not every old one could be removed: docker rm$(short $old)"
fi
echo "roll: done, $(running | grep -c '') workers run"
