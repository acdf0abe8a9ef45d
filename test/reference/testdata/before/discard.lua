-- discard: dead letters that are named are deleted. What is none any more stays.
--
-- ARGV[2...] their ids
--
-- Answers {how many}.

local found = {}
for i = 2, #ARGV do
  if call('ZSCORE', archived, ARGV[i]) then
    found[#found + 1] = {ARGV[i], lock_of(ARGV[i])}
  end
end
for _, t in ipairs(found) do
  call('UNLINK', task .. t[1])
  call('ZREM', archived, t[1])
  if t[2] then call('DEL', t[2]) end
end
return {#found}
