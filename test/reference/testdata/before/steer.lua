-- steer: waiting messages that are to be steered into the running turn become a
-- part of it: they are acked or redelivered with it. It looks for them near either
-- end of the line: one in the midst of a longer line, or beyond what a turn holds,
-- waits and becomes a turn of its own.
--
-- ARGV[4] sentinel's TTL, ms
-- ARGV[5] prefix of task ids
-- ARGV[6] how many messages a turn has at most
-- ARGV[7] how many bytes their tasks have at most
-- ARGV[8] how many bytes one task's msg may have
-- ARGV[9...] ids of the turn's tasks that the owner knows of
--
-- Answers {'ok', {{id, msg, age in ms, redeliveries} ...}, 1 if there may be more}:
-- those that the owner does not know of, be it that an earlier answer was lost; or
-- {'lost'}.

if not owned then return {'lost'} end
local OLD = 4096 -- bytes of a follow-up that is read for its mode alone
local now, prefix, most, room = now_ms(), ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7])
local ids = cjson.decode(call('HGET', run, 'ids'))
local known = {}
longest = tonumber(ARGV[8])
for i = 9, #ARGV do known[ARGV[i]] = true end

local steered, waiting = {}, call('LLEN', pending)

-- look(id, end_of): whether the turn has room for more; a message that is to be
-- steered becomes one of steered. end_of tells LREM where it is near to: 1 the newest,
-- -1 the oldest.
local function look(id, end_of)
  local t, own = call('HMGET', task .. id, 'state', 'steer', 'seen', 'seq'), own_id(prefix, id)
  if t[1] ~= 'pending' or not was_rung(t[3], t[4]) then return true end
  -- A sender of an earlier version tells it by the follow-up only, which has the text.
  local len = not t[2] and call('HSTRLEN', followups, own) or 0
  if not t[2] and (len == 0 or len > OLD) then return true end
  local e = call('HGET', followups, own)
  if not e or string.sub(e, 1, 15) ~= '{"mode":"steer"' then return true end
  local from, to = string.find(e, '"state":"queued"', 1, true)
  if not from then return true end
  local bytes = call('HSTRLEN', task .. id, 'msg')
  if bytes > longest then return true end -- a claim archives it
  room = room - bytes
  if room < 0 or #ids + #steered >= most then return false end
  steered[#steered + 1] = {id, own, string.sub(e, 1, from - 1) .. '"state":"steered"' .. string.sub(e, to + 1), end_of}
  return true
end

-- A turn that is to end takes no more: a message that came after /stop is not
-- what that stop meant.
if asked() == '' and #ids < most then
  for _, id in ipairs(ids) do room = room - call('HSTRLEN', task .. id, 'msg') end
  local fits = room > 0
  local oldest = fits and call('LRANGE', pending, -NEAR, -1) or {} -- newest first
  for i = #oldest, 1, -1 do
    fits = fits and look(oldest[i], -1)
  end
  if fits and waiting > NEAR then
    local newest = call('LRANGE', pending, 0, math.min(NEAR, waiting - NEAR) - 1)
    for i = #newest, 1, -1 do
      fits = fits and look(newest[i], 1)
    end
  end
  waiting = fits and waiting or 0
else
  waiting = 0
end
-- What is steered leaves its place to others, at which nobody has looked yet.
local more = #steered > 0 and waiting > 2 * NEAR
call('LLEN', active)

call('PEXPIRE', sentinel, ARGV[4])
for _, s in ipairs(steered) do
  if call('LREM', pending, s[4], s[1]) == 1 then
    call('LPUSH', active, s[1])
    call('HSET', task .. s[1], 'state', 'active')
    call('HSET', followups, s[2], s[3])
    ids[#ids + 1] = s[1]
  end
end
if #steered > 0 then call('HSET', run, 'ids', cjson.encode(ids)) end
if not more then call('HDEL', run, 'steer') end
local new = {}
for _, id in ipairs(ids) do
  if not known[id] then new[#new + 1] = id end
end
return {'ok', taken(new, now), more and 1 or 0}
