-- What every script of a session shares, after lockguard's prelude.
--
-- KEYS[1..21]  the session's keys, in the order of keys() in script.go; a script
--              that needs only the first of them is given those
-- ARGV[1]      prefix of the session's task hashes
--
-- A script reads and decodes all that it needs before its first write: what
-- cannot be read (a wrong type, a slot that migrates) then fails it while
-- nothing is written. Writes that may still fail on a key of a wrong type are
-- either the first, or undone, or of no weight (asynq's leases, follow-ups'
-- entries, events, statistics): those are made with pcall.

local sentinel, run, record, followups, resume, events, transcript, partial =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local pending, active, lease, paused, scheduled, retry, completed =
  KEYS[9], KEYS[10], KEYS[11], KEYS[12], KEYS[13], KEYS[14], KEYS[15]
local processed, processed_day, archived, failed, failed_day, stopped =
  KEYS[16], KEYS[17], KEYS[18], KEYS[19], KEYS[20], KEYS[21]
local task = ARGV[1]
-- Of redis' pcall an error is the answer: a table with err. Lua's own is try.
local call, pcall, try = redis.call, redis.pcall, pcall
