#!/bin/sh
# Makes the secrets of docker-compose.yml: passwords and tokens in .env, which compose reads, and users.acl, the Redis
# users of security.md with hashes of their passwords. What .env has stays: to change a secret, delete its line, run this
# again, and start anew what uses it: docker compose up --force-recreate.
#
#   docs/compose-secrets.sh
set -eu
cd "$(dirname "$0")/.."
umask 077
touch .env
[ -z "$(tail -c 1 .env)" ] || echo >>.env
has() { sed -n "s/^$1=//p" .env | tail -n 1; }

for name in ADMIN_PASSWORD WORKER_PASSWORD GATEWAY_PASSWORD DASHBOARD_PASSWORD TURNSTILE_HTTP_TOKEN GATEWAY_TOKEN; do
  [ -n "$(has $name)" ] || echo "$name=$(od -An -N 16 -tx1 /dev/urandom | tr -d ' \n')" >>.env
  value=$(has $name)
  case $value in
  *[!A-Za-z0-9]*) echo "compose-secrets: $name in .env may have letters and digits only" >&2 && exit 1 ;;
  esac
  export "$name=$value"
done
hash=$(printf %s "$GATEWAY_TOKEN" | sha256sum | cut -c 1-64)
{
  grep -v '^GATEWAY_TOKEN_SHA256=' .env
  echo "GATEWAY_TOKEN_SHA256=$hash"
} >.env.new
mv .env.new .env

TURNSTILE_DASHBOARD_WRITE=${TURNSTILE_DASHBOARD_WRITE:-$(has TURNSTILE_DASHBOARD_WRITE)}
export TURNSTILE_DASHBOARD_WRITE
docs/redis-users.sh --file users.acl >/dev/null
echo 'user turnstile-health reset on nopass +ping' >>users.acl # of the health check, which has no secret
chmod 644 users.acl                                            # Redis reads it as a user of its own
echo "compose-secrets: .env and users.acl are ready"
