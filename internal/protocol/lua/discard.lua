-- discard: deletes the given dead letters, or with the key completed in place of archived, results. A
-- message that is no longer one stays.
--
-- KEYS archived
-- ARGS
--   s.task       prefix of the session's task hashes
--   ids list
-- RETURNS
--   result: discarded:int

local found = {}
for _, id in ipairs(ids) do
  if call('ZSCORE', s.archived, id) then found[#found + 1] = {id = id, unique = lock_of(s, id)} end
end
for _, t in ipairs(found) do
  call('UNLINK', s.task .. t.id)
  call('ZREM', s.archived, t.id)
  if t.unique then call('DEL', t.unique) end
end
return result{discarded = #found}
