-- unclaim: a claim whose reply was lost is taken back, under its token: nobody knows
-- what it took. Its messages go back to the head of the line as they were, for they
-- were in no turn. If somebody has asked for that turn's end meanwhile, nothing goes
-- back: the next claim ends it, as any whose owner has died.
--
-- ARGV[2] token of the claim
-- ARGV[3] prefix of task ids
--
-- Answers {'released', when it can be claimed again (ms, 0: never), now}, or {'lost'}:
-- it was not carried out, or its sentinel has ended.

local now, token, prefix = now_ms(), ARGV[2], ARGV[3]
local r = call('HMGET', run, 'token', 'ids', 'hold', 'reset', 'last', 'fence', 'stop', 'rollback', 'interrupt')
local mine = token .. ' - released' -- no fence: nobody knows it
if r[5] == mine then return {'released', r[1] == token and now or next_at(r[3], now) or 0, now} end
if r[1] ~= token or not owns(sentinel, token) then return {'lost'} end
local ids, back = cjson.decode(r[2]), {}
local ends = r[7] == r[6] or r[8] == r[6] or r[9] == r[6]
for i = #ids, 1, -1 do -- newest first
  if not ends and call('HEXISTS', task .. ids[i], 'msg') == 1 then back[#back + 1] = ids[i] end
end
call('LLEN', active)
call('LLEN', pending)
local carried = call('HGET', resume, 'interruptions')

call('DEL', sentinel)
for _, id in ipairs(back) do put_back(id, prefix, true) end
if r[4] == 'suspended' then -- the turn that begins anew is still to come
  call('HSET', run, 'special', '1')
  call('HSET', resume, 'suspended', '1')
  if carried then call('HSET', resume, 'carried', carried) end
end
if ends then
  call('HSET', run, 'reset', '', 'last', mine)
  return {'released', now, now}
end
call('HSET', run, 'token', '', 'phase', 'idle', 'reset', '', 'last', mine)
return {'released', next_at(r[3], now) or 0, now}
