-- Code generated from ../lua/outbox_due.lua by go generate; DO NOT EDIT.
--
-- outbox_due: takes due sessions from the index of the outbox. Their new score is when another
-- deliverer takes them if this one dies.
--
-- KEYS index
-- ARGS
--   batch int       how many at most
--   hidden number   how long no other call takes them, ms
-- RETURNS
--   result: now:int at:int sessions:list     at: their new score

local call, pcall, try = redis.call, redis.pcall, pcall
local KEYS, ARGV = KEYS, ARGV
local s_index = KEYS[1]

-- Redis' clock in milliseconds. No script reads another clock.
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local batch, hidden = ARGV[1], tonumber(ARGV[2])

local now = now_ms()
local due, scores = call('ZRANGEBYSCORE', s_index, '-inf', string.format('%d', now), 'LIMIT', '0', batch), {}
local at = string.format('%d', (now + hidden))
for _, session in ipairs(due) do
  scores[#scores + 1], scores[#scores + 2] = at, session
end
if #scores > 0 then call('ZADD', s_index, 'XX', unpack(scores)) end
return {now, tonumber(at), due}
