-- journal: adds to the running turn's journal, so that the turn's next run begins where this one was
-- interrupted. Only what is new is sent. The events of what it adds are written with it, so that
-- followers have seen what the next run does not show again.
--
-- KEYS sentinel run record events journal
-- ARGS
--   s.task          prefix of the session's task hashes
--   s.token
--   s.fence int
--   s.events_cap int   see append_event
--   s.short number     bytes
--   s.large_bytes int
--   ttl int         the sentinel's, ms
--   journal_ttl int  ms
--   number          of this call within the run, from 1
--   origin          new: the message gets it if it has none yet
--   first           id of the turn's first task
--   batch           number of the events' batch within the turn, see emit
--   events number   how many of the texts are events, JSON. The rest are fields of the journal and their
--     values, at most 500 and 4 MiB, or one
--   texts list
-- RETURNS
--   'ok' origin     of the first message, for idempotency keys
--   'lost'

local run = fields(s.run, 'token', 'fence', 'seq')
if not owned(s, run) then return lost{} end
local journal = fields(s.journal, 'fence', 'call', 'origin')
local known = journal.fence ~= s.fence and call('HGET', s.task .. first, 'origin')
local of, last = string.match(journal.call or '', '^(%d+) (%d+)$')
call('PEXPIRE', s.sentinel, ttl)
if of == s.fence and tonumber(last) >= tonumber(number) then return ok{origin = journal.origin} end -- it came twice, or late
call('HSET', s.run, 'special', '1')
confirm_claim(s, run) -- else a crash would set no resume mark for this
if journal.fence ~= s.fence then
  if journal.fence then call('UNLINK', s.journal) end -- another turn's
  journal.origin = known or origin
  if not known then call('HSET', s.task .. first, 'origin', origin) end
  call('HSET', s.journal, 'v', '1', 'fence', s.fence, 'origin', journal.origin)
end
call('HSET', s.journal, 'call', s.fence .. ' ' .. number, unpack(texts, events + 1))
call('PEXPIRE', s.journal, journal_ttl)
pcall('HSET', s.record, 'updated_at', int(now_ms()))
if events > 0 then call('HSET', s.run, 'seq', s.fence .. ' ' .. batch) end
for i = 1, events do append_event(s, texts[i]) end
return ok{origin = journal.origin}
