-- once: the record of a command under an id that a sender gave it: "hash nonce", and " result" once it
-- was carried out.
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
if step == 'begin' and stored == '' then
  stored = mark
  call('SET', s.idem, stored, 'PX', int(life))
elseif step == 'end' and stored == mark then
  stored = mark .. ' ' .. outcome
  call('SET', s.idem, stored, 'PX', int(life))
elseif step == 'free' and stored == mark then
  stored = ''
  call('DEL', s.idem)
end
return result{stored = stored}
