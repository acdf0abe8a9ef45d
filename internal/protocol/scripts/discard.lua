-- Code generated from ../lua/discard.lua by go generate; DO NOT EDIT.
--
-- discard: deletes the given dead letters, or with the key completed in place of archived, results. A
-- message that is no longer one stays.
--
-- KEYS archived
-- ARGS
--   s.task       prefix of the session's task hashes
--   ids list
-- RETURNS
--   result: discarded:int

local call, pcall, try = redis.call, redis.pcall, pcall
local KEYS, ARGV = KEYS, ARGV
local s_archived, s_task = KEYS[1], ARGV[1]

-- held_lock(id, unique) returns the task's unique key if the task still holds that lock, or false.
local function held_lock(id, unique)
  return unique and unique ~= '' and call('GET', unique) == id and unique
end

-- lock_of(s, id) returns the unique lock that a task holds, or false. It does not read the msg.
local function lock_of(s_task, id) return held_lock(id, call('HGET', s_task .. id, 'unique_key')) end

local at = 2
local function list()
  local l, n = {}, tonumber(ARGV[at])
  for i = 1, n do l[i] = ARGV[at + i] end
  at = at + n + 1
  return l
end
local ids = list()

local found = {}
for _, id in ipairs(ids) do
  if call('ZSCORE', s_archived, id) then found[#found + 1] = {id = id, unique = lock_of(s_task, id)} end
end
for _, t in ipairs(found) do
  call('UNLINK', s_task .. t.id)
  call('ZREM', s_archived, t.id)
  if t.unique then call('DEL', t.unique) end
end
return {#found}
