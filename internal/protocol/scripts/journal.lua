-- Code generated from ../lua/journal.lua by go generate; DO NOT EDIT.
--
-- journal: adds to the running turn's journal, so that the turn's next run begins where this one was
-- interrupted. Only what is new is sent.
--
-- KEYS sentinel run record partial journal
-- ARGS
--   s.task          prefix of the session's task hashes
--   s.token
--   s.fence int
--   ttl int         the sentinel's, ms
--   journal_ttl int  ms
--   number          of this call within the run, from 1
--   origin          new: the message gets it if it has none yet
--   first           id of the turn's first task
--   content         the partial, JSON, for workers of the version before; '': there is none
--   changes list    fields of the journal and their values, at most 500 and 4 MiB, or one
-- RETURNS
--   'ok' origin     of the first message, for idempotency keys
--   'lost'

local call, pcall, try = redis.call, redis.pcall, pcall
local KEYS, ARGV = KEYS, ARGV
local s_sentinel, s_run, s_record, s_partial, s_journal, s_task, s_token, s_fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], ARGV[1], ARGV[2], ARGV[3]
local function fields_1(key)
  local v = call('HMGET', key, 'token', 'fence', 'seq')
  return {token = v[1], fence = v[2], seq = v[3]}
end
local function fields_2(key)
  local v = call('HMGET', key, 'fence', 'call', 'origin')
  return {fence = v[1], call = v[2], origin = v[3]}
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

local ttl, journal_ttl, number, origin, first, content = ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9]
local at = 10
local function list()
  local l, n = {}, tonumber(ARGV[at])
  for i = 1, n do l[i] = ARGV[at + i] end
  at = at + n + 1
  return l
end
local changes = list()

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
call('HSET', s_journal, 'call', s_fence .. ' ' .. number, unpack(changes))
call('PEXPIRE', s_journal, journal_ttl)
if content ~= '' then call('SET', s_partial, content, 'PX', journal_ttl) end
pcall('HSET', s_record, 'updated_at', string.format('%d', (now_ms())))
return {'ok', journal.origin}
