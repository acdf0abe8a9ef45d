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

local stored = call('GET', s.idem) or ''
local changes = step == 'begin' and stored == '' or stored == mark
-- A full Redis refuses a script only until its first write, so that one frees memory: /stop must
-- work.
if changes then call('DEL', s.idem) end
if step == 'begin' and changes then
  stored = mark
  call('SET', s.idem, stored, 'PX', int(life))
elseif step == 'end' and changes then
  stored = mark .. ' ' .. outcome
  call('SET', s.idem, stored, 'PX', int(life))
elseif changes then
  stored = ''
end
return result{stored = stored}
