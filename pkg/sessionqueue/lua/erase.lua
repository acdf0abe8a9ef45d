-- erase: a conversation leaves nothing behind. Not while somebody owns it.
--
-- KEYS[21...] all its keys that a scan has found
--
-- Answers 1, or 0 if it is owned.

if call('EXISTS', sentinel) == 1 then return 0 end
local ids = {}
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
return 1
