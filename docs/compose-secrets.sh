#!/bin/sh
# Makes the secrets of docker-compose.yml: passwords and tokens in .env, which compose reads, users.acl, the Redis users of
# security.md with hashes of their passwords, and gateway-tokens.json with the hash of the gateway's token. What .env has
# stays: to change a secret, delete its line, run this again, and start anew what uses it: docker compose up --force-recreate.
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
cat >gateway-tokens.json <<END
[{"name": "compose", "sha256": "$(printf %s "$GATEWAY_TOKEN" | sha256sum | cut -c 1-64)",
  "sessions": ["*"], "may": ["send", "read", "control", "operate"]}]
END

TURNSTILE_DASHBOARD_WRITE=${TURNSTILE_DASHBOARD_WRITE:-$(has TURNSTILE_DASHBOARD_WRITE)}
export TURNSTILE_DASHBOARD_WRITE
docs/redis-users.sh --file users.acl >/dev/null
echo 'user turnstile-health reset on nopass +ping' >>users.acl # of the health check, which has no secret
chmod 644 users.acl gateway-tokens.json                        # users of the containers read them
echo "compose-secrets: .env, users.acl and gateway-tokens.json are ready"
