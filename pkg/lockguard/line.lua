-- The line of those who wait for a lock; stands before the scripts that hand
-- the lock over, and after what of them needs no line.
--
-- waiters  ZSET token -> place: who came first has the lowest
-- waiting  HASH token -> registration: 'until ttl counted channel owner'
--          until    Redis' us after which the waiter counts as dead
--          ttl      ms that its hold will get
--          counted  1: PUBLISH returns rightly how many listen on the channel;
--                   0: it cannot know (Redis Cluster)
--          channel  where the waiter's process listens

-- How much longer than a hold its record lasts, ms.
local keep_longer = 3600000
-- How long a waiter that nobody listens for keeps its place, us. If it lives it
-- connects again, and then calls acquire again.
local grace = 3000000

-- Gives the lock to the first waiter that lives and is listening, and returns
-- its token and owner; nil when there is none. asker is the token of a waiter
-- that need not listen, since this script's result tells it. The caller has
-- read from all four keys, so that none is of a wrong type, and has made a
-- write, so that a server that takes none fails the script before a waiter is
-- told anything.
local function pass_on(sentinel, run, waiters, waiting, fence, now, asker)
  local at, time = 0, tonumber(now)
  while true do
    local token = redis.call('ZRANGE', waiters, at, at)[1]
    if not token then
      return nil
    end
    local registration = redis.call('HGET', waiting, token) or ''
    local ends, rest = string.match(registration, '^(%d+)( .*)$')
    local alive = ends and (token == asker or tonumber(ends) > time)
    local ttl, counted, channel, owner = string.match(rest or '', '^ (%d+) (%d) (%S+) (.*)$')
    local heard = alive and (token == asker or
      redis.call('PUBLISH', channel, token .. ' ' .. fence) > 0 or counted == '0')
    if heard or not alive then
      redis.call('ZREM', waiters, token)
      redis.call('HDEL', waiting, token)
    end
    if heard then
      give(sentinel, run, token, owner, fence, now, ttl, int(ttl + keep_longer))
      return token, owner
    end
    if alive then
      if tonumber(ends) > time + grace then
        redis.call('HSET', waiting, token, int(time + grace) .. rest)
      end
      at = at + 1
    end
  end
end
