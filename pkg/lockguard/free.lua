-- release, the usual case: the token holds the lock and nobody waits. It stands
-- before everything else, so that it pays for nothing else; otherwise
-- release.lua goes on.
local sentinel, run, waiters, waiting, released = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local token = ARGV[1]

local mine = redis.call('GET', sentinel) == token
if mine and redis.call('EXISTS', waiters) == 0 then
  redis.call('RENAME', sentinel, released)
  return 1
end
