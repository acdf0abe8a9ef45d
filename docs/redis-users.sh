#!/bin/sh
# Gives a Redis server an administrator and the users of redis-rules.txt, switches the default user off,
# keeps that, and checks the result. Run it again to change passwords or rules.
#
# The default user is off but keeps all rights: nobody can log in as it, and Redis replays its append-only file as it.
# Without rights the replay would skip every transaction, and a script's writes are one.
#
#   ADMIN_PASSWORD=... WORKER_PASSWORD=... GATEWAY_PASSWORD=... docs/redis-users.sh [-h HOST] [-p PORT]
#   ADMIN_PASSWORD=... WORKER_PASSWORD=... GATEWAY_PASSWORD=... docs/redis-users.sh --file users.acl
#
# Roles: WORKER, SENDER, OPERATOR, GATEWAY, DASHBOARD (with TURNSTILE_DASHBOARD_WRITE=true one that may write). One
# without a password gets no user. The first time it connects as the default user, with the password in REDISCLI_AUTH if
# it has one. Arguments are redis-cli's. It needs redis-cli 7 and sha256sum. With --file it connects to no server, but
# writes an aclfile for one that is started later.
set -eu
rules_file=$(dirname "$0")/redis-rules.txt
: "${ADMIN_PASSWORD:?set it to a long random text}"

fail() { echo "redis-users: $*" >&2; exit 1; }
digest() { printf %s "$1" | sha256sum | cut -c 1-64; } # a password in an argument could be read by every process
as() { # as USER PASSWORD COMMAND...: a command of this user
  login=$1 secret=$2
  shift 2
  REDISCLI_AUTH=$secret redis-cli $options --no-auth-warning -e --user "$login" "$@"
}
may_login() { # by AUTH itself: redis-cli goes on as the default user where its own has failed
  [ "$(printf %s "$2" | redis-cli $options -x AUTH "$1" 2>/dev/null)" = OK ]
}
admin() { as turnstile-admin "$ADMIN_PASSWORD" "$@"; }
file=
if [ "${1:-}" = --file ]; then
  file=${2:?name the file}
  shift 2
fi
options=$*

users() { # sets a user for each role that has a password
  for role in worker sender operator gateway dashboard; do
    name=$(echo "$role" | tr a-z A-Z)
    eval "password=\${${name}_PASSWORD:-}"
    [ -n "$password" ] || continue
    from=turnstile-$role
    [ "$role ${TURNSTILE_DASHBOARD_WRITE:-}" != "dashboard true" ] || from=turnstile-dashboard-write
    rules=$(sed -n "/^redis-cli ACL SETUSER $from reset/,/^\$/p" "$rules_file" | sed "s/^redis-cli ACL SETUSER $from/user turnstile-$role/; s/>$name-PASSWORD/#$(digest "$password")/")
    [ -n "$rules" ] || fail "$rules_file has no rules for $role"
    eval "$rules"
    roles="$roles turnstile-$role"
  done
}
roles=
if [ -n "$file" ]; then
  user() { echo "user $*"; }
  {
    user default reset off '~*' '&*' +@all
    user turnstile-admin reset on "#$(digest "$ADMIN_PASSWORD")" '~*' '&*' +@all
    users
  } >"$file.new"
  mv "$file.new" "$file"
  echo "redis-users: in $file: turnstile-admin$roles; default is off"
  exit
fi
user() {
  admin ACL SETUSER "$@" >/dev/null
  may_login "$1" "$password" || fail "$1 cannot log in: the default user is still on"
}

# Without another administrator, switching the default user off would lock everybody out.
if ! may_login turnstile-admin "$ADMIN_PASSWORD"; then
  redis-cli $options -e ACL SETUSER turnstile-admin reset on "#$(digest "$ADMIN_PASSWORD")" '~*' '&*' +@all >/dev/null ||
    fail "the default user may not set users: give its password in REDISCLI_AUTH"
fi
may_login turnstile-admin "$ADMIN_PASSWORD" || fail "the administrator cannot log in: nothing was switched off"

users

keep() { # in Redis' files; redis-cli prints why it cannot
  if [ -n "$(admin CONFIG GET aclfile | sed -n 2p)" ]; then admin ACL SAVE; else admin CONFIG REWRITE; fi >/dev/null
}
# The default user goes last: if Redis forgot the others, nobody could log in.
keep || fail "Redis cannot keep the users: start it with an aclfile or a configuration file that it may write, and run this again. The default user is still on"
admin ACL SETUSER default off '~*' '&*' +@all >/dev/null
keep || fail "the default user is off only until Redis restarts: run this again"

# The end is what the server says, not what was sent to it. A default user with a password refuses a login without one, too.
admin ACL GETUSER default | sed -n '/^flags$/,/^passwords$/p' | grep -qx off || fail "the default user is still on"
case $(admin ACL GETUSER default | tr '\n' ' ') in
*' commands +@all keys ~* channels &* '*) ;;
*) fail "the default user lacks rights: at its next start Redis would skip most of its append-only file" ;;
esac
[ "$(admin ACL WHOAMI)" = turnstile-admin ] || fail "the administrator cannot log in"
echo "redis-users: set and kept: turnstile-admin$roles; default is off"
