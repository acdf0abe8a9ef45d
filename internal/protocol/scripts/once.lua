-- Code generated from ../lua/once.lua by go generate; DO NOT EDIT.
--
-- once: the record of a command with an id from its sender: "hash nonce", and " result" once it was
-- carried out.
--
-- KEYS idem
-- ARGS
--   step         'begin': store the mark, unless the id has a record; 'end': add the result; 'free': forget
--                the id. The last two do nothing unless the record is the mark
--   mark         "hash nonce" of this call
--   outcome      the result, for end
--   life number  of the record, ms
-- RETURNS
--   result: stored     what the id has now

local call, pcall, try = redis.call, redis.pcall, pcall
local KEYS, ARGV = KEYS, ARGV
local s_idem = KEYS[1]
local step, mark, outcome, life = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

local stored = call('GET', s_idem) or ''
local changes = step == 'begin' and stored == '' or stored == mark
-- A full Redis refuses a script only until its first write, so that one frees memory: /stop must
-- work.
if changes then call('DEL', s_idem) end
if step == 'begin' and changes then
  stored = mark
  call('SET', s_idem, stored, 'PX', string.format('%d', life))
elseif step == 'end' and changes then
  stored = mark .. ' ' .. outcome
  call('SET', s_idem, stored, 'PX', string.format('%d', life))
elseif changes then
  stored = ''
end
return {stored}
