-- erase: a conversation leaves nothing behind. Not while somebody owns it.
--
-- ARGV[2] fence of the last turn when the keys were looked up, '': none
-- KEYS[21...] all its keys, as they were looked up
--
-- Answers {'gone'}, {'held'}, or {'changed'}: a turn has run since the keys were
-- looked up, and may have made others.

if call('EXISTS', sentinel) == 1 then return {'held'} end
if (call('HGET', run, 'fence') or '') ~= ARGV[2] then return {'changed'} end
local ids = {} -- of tasks that have come since, too
for _, list in ipairs({pending, active}) do
  for _, id in ipairs(call('LRANGE', list, 0, -1)) do ids[#ids + 1] = id end
end
for _, zset in ipairs({scheduled, retry, completed, archived}) do
  for _, id in ipairs(call('ZRANGE', zset, 0, -1)) do ids[#ids + 1] = id end
end
local locks = {}
for _, id in ipairs(ids) do
  local msg, unique = load(id)
  if unique then locks[#locks + 1] = unique end
end
for _, id in ipairs(ids) do call('DEL', task .. id) end
for _, unique in ipairs(locks) do call('DEL', unique) end
for _, key in ipairs(KEYS) do call('DEL', key) end
return {'gone'}
