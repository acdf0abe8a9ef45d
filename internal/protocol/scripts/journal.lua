-- Code generated from ../lua/journal.lua by go generate; DO NOT EDIT.
--
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

local call, pcall, try = redis.call, redis.pcall, pcall
local KEYS, ARGV = KEYS, ARGV
local s_sentinel, s_run, s_record, s_events, s_journal, s_task, s_token, s_fence, s_events_cap, s_short, s_large_bytes = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), ARGV[6]
local function fields_1(key)
  local v = call('HMGET', key, 'token', 'fence', 'seq')
  return {token = v[1], fence = v[2], seq = v[3]}
end
local function fields_2(key)
  local v = call('HMGET', key, 'fence', 'call', 'origin')
  return {fence = v[1], call = v[2], origin = v[3]}
end

-- append_event(s, event, start) writes an event into the stream, with its turn's start if the
-- stream does not have that yet. The stream keeps about s.events_cap entries. Events of more than
-- s.short bytes are large: together they may have s.large_bytes. If s.large_bytes is 0, nothing is
-- counted. Short events are bounded by their number.
--
-- Large events are counted in two generations, in the run record's stream: "bytes of the older one,
-- of the younger one, its first id". If the next event takes the younger one past half of the
-- limit, the younger one becomes the older one, the event begins a new one, and all earlier events
-- are deleted. An event above the limit stays until the next large one.
local function append_event(s_events, s_events_cap, s_large_bytes, s_run, s_short, event, start)
  local size, id = #event, false
  if (start or '') == '' then
    id = pcall('XADD', s_events, 'MAXLEN', '~', s_events_cap, '*', 'e', event)
  else
    id, size = pcall('XADD', s_events, 'MAXLEN', '~', s_events_cap, '*', 's', start, 'e', event), size + #start
  end
  if size <= s_short or s_large_bytes == '0' or type(id) ~= 'string' then return end
  local was = pcall('HGET', s_run, 'stream')
  if type(was) == 'table' then return end
  local older, younger, from = string.match(was or '', '^(%d+) (%d+) (%S+)$')
  older, younger, from = tonumber(older) or 0, tonumber(younger) or 0, from or '0'
  local first, most = false, tonumber(s_large_bytes) -- first: id of the first event that stays
  if younger + size > most / 2 then
    first, older, younger, from = from, younger, 0, id
  end
  younger = younger + size
  if older + younger > most then first, older = from, 0 end
  if first then pcall('XTRIM', s_events, 'MINID', '~', first) end
  pcall('HSET', s_run, 'stream', string.format('%d', older) .. ' ' .. string.format('%d', younger) .. ' ' .. from)
end

-- confirm_claim(s, run) records that the owner knows of this turn. Until then the owner's death
-- does not count, because the reply to its claim may have been lost. A batch of events records it,
-- too.
local function confirm_claim(s_fence, s_run, run)
  if string.match(run.seq or '', '^(%d+) ') ~= s_fence then call('HSET', s_run, 'seq', s_fence .. ' 0') end
end

-- Redis' clock in milliseconds. No script reads another clock.
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- owned(s, run) returns whether the turn still belongs to this token and fence. If not, nothing may
-- be written.
local function owned(s_fence, s_sentinel, s_token, run)
  return run.token == s_token and run.fence == s_fence and (redis.call('GET', s_sentinel) == s_token)
end

local ttl, journal_ttl, number, origin, first, batch, events = ARGV[7], ARGV[8], ARGV[9], ARGV[10], ARGV[11], ARGV[12], tonumber(ARGV[13])
local at = 14
local function list()
  local l, n = {}, tonumber(ARGV[at])
  for i = 1, n do l[i] = ARGV[at + i] end
  at = at + n + 1
  return l
end
local texts = list()

local run = fields_1(s_run)
if not owned(s_fence, s_sentinel, s_token, run) then return {'lost'} end
local journal = fields_2(s_journal)
local known = journal.fence ~= s_fence and call('HGET', s_task .. first, 'origin')
local of, last = string.match(journal.call or '', '^(%d+) (%d+)$')
call('PEXPIRE', s_sentinel, ttl)
if of == s_fence and tonumber(last) >= tonumber(number) then return {'ok', journal.origin} end -- it came twice, or late
call('HSET', s_run, 'special', '1')
confirm_claim(s_fence, s_run, run) -- else a crash would set no resume mark for this
if journal.fence ~= s_fence then
  if journal.fence then call('UNLINK', s_journal) end -- another turn's
  journal.origin = known or origin
  if not known then call('HSET', s_task .. first, 'origin', origin) end
  call('HSET', s_journal, 'v', '1', 'fence', s_fence, 'origin', journal.origin)
end
call('HSET', s_journal, 'call', s_fence .. ' ' .. number, unpack(texts, events + 1))
call('PEXPIRE', s_journal, journal_ttl)
pcall('HSET', s_record, 'updated_at', string.format('%d', (now_ms())))
if events > 0 then call('HSET', s_run, 'seq', s_fence .. ' ' .. batch) end
for i = 1, events do append_event(s_events, s_events_cap, s_large_bytes, s_run, s_short, texts[i]) end
return {'ok', journal.origin}
