-- The line of those who wait for a lock; stands before the scripts that hand
-- the lock over, and after what of them needs no line.
--
-- waiters  ZSET token -> place: who came first has the lowest
-- waiting  HASH token -> registration: 'until ttl counted channel owner'
--          until    Redis' us after which the waiter counts as dead
--          ttl      ms that its hold will get
--          counted  1: PUBLISH answers rightly how many listen on the channel;
--                   0: it cannot know (Redis Cluster)
--          channel  where the waiter's process listens

-- How much longer than a hold its record lasts, ms.
local keep_longer = 3600000

-- Gives the lock to the first waiter that lives and is listening, and answers
-- its token and owner; nil when there is none. A waiter nobody listens for
-- (its process died, or its connection did) leaves the line; if it lives it
-- comes back to its place. The caller has read from all four keys, so that
-- none is of a wrong type, and has made a write, so that a server that takes
-- none fails the script before a waiter is told anything.
local function pass_on(sentinel, run, waiters, waiting, fence, now)
  while true do
    local token = redis.call('ZRANGE', waiters, 0, 0)[1]
    if not token then
      return nil
    end
    local registration = redis.call('HGET', waiting, token) or ''
    local ends, ttl, counted, channel, owner = string.match(registration, '^(%d+) (%d+) (%d) (%S+) (.*)$')
    redis.call('ZREM', waiters, token)
    redis.call('HDEL', waiting, token)
    if ends and tonumber(ends) > tonumber(now) then
      local listeners = redis.call('PUBLISH', channel, token .. ' ' .. fence)
      if listeners > 0 or counted == '0' then
        give(sentinel, run, token, owner, fence, now, ttl, int(ttl + keep_longer))
        return token, owner
      end
    end
  end
end
