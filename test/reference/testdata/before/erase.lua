-- erase: a conversation leaves nothing behind. Not while somebody owns it. Messages
-- are erased a batch at a time, what has ended first and what waits last, the newest
-- first; the call that finds less than a batch erases the rest.
--
-- ARGV[2] fence of the last turn when the keys were looked up, '': none
-- ARGV[3] batch
-- ARGV[4] '1': of its keys none is left but these; else this erases at most a batch
-- KEYS[22...] others of its keys, as they were looked up
--
-- Answers {'gone'}, {'held'}, {'changed'}: a turn has run since the keys were
-- looked up, and may have made others; or {'batch', how many}: call again.

if call('EXISTS', sentinel) == 1 then return {'held'} end
if (call('HGET', run, 'fence') or '') ~= ARGV[2] then return {'changed'} end
local ids, parts, batch = {}, {}, tonumber(ARGV[3])
local function gather(key, range)
  local part = #ids < batch and call(range, key, 0, batch - #ids - 1) or {}
  parts[#parts + 1] = {key, range, #part}
  for _, id in ipairs(part) do ids[#ids + 1] = id end
end
for _, zset in ipairs({archived, completed, retry, scheduled}) do gather(zset, 'ZRANGE') end
gather(stopped, 'LRANGE')
gather(pending, 'LRANGE')
gather(active, 'LRANGE') -- a dead owner's
local locks = {}
for _, id in ipairs(ids) do
  local unique = lock_of(id)
  if unique then locks[#locks + 1] = unique end
end
for _, id in ipairs(ids) do call('UNLINK', task .. id) end
for _, unique in ipairs(locks) do call('DEL', unique) end
for i = 22, #KEYS do call('UNLINK', KEYS[i]) end
-- Behind this a fence is Redis' clock again: the last one has to lie in the past. Turns
-- of less than a ms run a little ahead of it; what lies further ahead is no fence of ours.
local ahead = (tonumber(ARGV[2]) or 0) - now_ms()
if #ids < batch and ARGV[4] == '1' and (ahead < 0 or ahead > 1000) then
  for i = 1, 21 do call('UNLINK', KEYS[i]) end
  return {'gone'}
end
for _, p in ipairs(parts) do
  if p[3] > 0 and p[2] == 'LRANGE' then
    call('LTRIM', p[1], p[3], -1)
  elseif p[3] > 0 then
    call('ZREMRANGEBYRANK', p[1], 0, p[3] - 1)
  end
end
-- Of a /stop whose messages are gone no claim is to archive any.
if call('EXISTS', stopped) == 0 and call('HGET', run, 'stopping') == '1' then call('HSET', run, 'stopping', '') end
return {'batch', #ids}
