-- What the scripts of an owner share, after session.lua: only the holder of
-- token and fence may change a turn.
--
-- ARGV[2] token
-- ARGV[3] fence

local token, fence = ARGV[2], ARGV[3]

local r = call('HMGET', run, 'token', 'fence', 'entries', 'done', 'hold', 'rotated', 'stopping')

-- Whether this turn is still the token's and the fence's.
local owned = r[1] == token and r[2] == fence and owns(sentinel, token)

-- answered(): what an earlier sending of the same request was answered, if its
-- reply got lost on the way; else false.
local function answered()
  local mine, last = token .. ' ' .. fence .. ' ', call('HGET', run, 'last')
  if last and string.sub(last, 1, #mine) == mine then return string.sub(last, #mine + 1) end
  return false
end

-- hear_of_owner(): notes that the owner knows of this turn. Until then its death does not
-- count: the reply to its claim may have been lost. A batch of events notes it, too.
local function hear_of_owner()
  local of = string.match(call('HGET', run, 'seq') or '', '^(%d+) ')
  if of ~= fence then call('HSET', run, 'seq', fence .. ' 0') end
end
