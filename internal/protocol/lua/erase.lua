-- erase: removes all keys of a session without an owner. Messages are erased a batch at a time:
-- first ended ones, last waiting ones, the newest first. The call that finds less than a batch
-- erases the rest.
--
-- KEYS sentinel run record followups resume events transcript partial journal pending active lease paused scheduled retry completed
-- KEYS processed processed_day archived failed failed_day stopped state owed outbox deliveries undelivered audit others...
-- ARGS
--   s.task           prefix of the session's task hashes
--   s.prefix         of task ids
--   idem             prefix of the keys of ids that senders named
--   fence            of the last turn when the keys were looked up, '': none
--   size number     how many tasks a batch has
--   unused number   erase nothing unless no message waits and the last turn ended this many ms ago;
--     0: whatever waits
--   last flag        these are all its keys; else this call erases at most a batch
--   keep flag        erase nothing while a delivery is owed or undelivered
-- RETURNS
--   'gone'
--   'held'
--   'used' at:int        look again then, ms; 0: unknown
--   'owed' promised:int stored:int     how many outcomes are owed, and how many are not delivered
--   'changed'        a turn has run since the keys were looked up, and may have made others
--   'batch' n:int        how many messages are erased: call again

if call('EXISTS', s.sentinel) == 1 then return held{} end
if unused > 0 then
  local at = (tonumber(call('HGET', s.run, 'ended_at') or 0) or 0) + unused
  if call('LLEN', s.pending) + call('LLEN', s.active) + call('ZCARD', s.scheduled) + call('ZCARD', s.retry) > 0 then at = 0 end
  if at == 0 or at > now_ms() then return used{at = at} end
end
if (call('HGET', s.run, 'fence') or '') ~= fence then return changed{} end
local sequence = call('HGET', s.deliveries, 'seq') -- the next one begins with Redis' clock, too
if keep then
  local promised, stored = call('HLEN', s.owed), call('ZCARD', s.outbox) + call('ZCARD', s.undelivered)
  if promised + stored > 0 then return owed{promised = promised, stored = stored} end
end
local ids, parts = {}, {}
local function collect(key, range)
  local part = #ids < size and call(range, key, 0, size - #ids - 1) or {}
  parts[#parts + 1] = {key = key, range = range, n = #part}
  for _, id in ipairs(part) do ids[#ids + 1] = id end
end
for _, zset in ipairs({s.archived, s.completed, s.retry, s.scheduled}) do collect(zset, 'ZRANGE') end
collect(s.stopped, 'LRANGE')
collect(s.pending, 'LRANGE')
collect(s.active, 'LRANGE') -- a dead owner's
local locks = {}
for _, id in ipairs(ids) do
  local unique = lock_of(s, id)
  if unique then locks[#locks + 1] = unique end
end
for _, id in ipairs(ids) do call('UNLINK', s.task .. id, idem .. own_id(s, id)) end
for _, unique in ipairs(locks) do call('DEL', unique) end
for _, key in ipairs(others) do call('UNLINK', key) end
-- After this, fences begin with Redis' clock again, so the last one must be in the past. Turns of
-- less than a ms run a little ahead of the clock. A fence further ahead was not written by
-- Turnstile.
local ahead = math.max(tonumber(fence) or 0, tonumber(sequence) or 0) - now_ms()
if #ids < size and last and (ahead < 0 or ahead > 1000) then
  for i = 1, #KEYS - #others do call('UNLINK', KEYS[i]) end
  return gone{}
end
for _, p in ipairs(parts) do
  if p.n > 0 and p.range == 'LRANGE' then
    call('LTRIM', p.key, p.n, -1)
  elseif p.n > 0 then
    call('ZREMRANGEBYRANK', p.key, 0, p.n - 1)
  end
end
-- A claim must not archive messages of a /stop if none are left.
if call('EXISTS', s.stopped) == 0 and call('HGET', s.run, 'stopping') == '1' then call('HSET', s.run, 'stopping', '') end
return batch{n = #ids}
