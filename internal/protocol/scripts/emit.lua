-- Code generated from ../lua/emit.lua by go generate; DO NOT EDIT.
--
-- emit: writes the next events of a turn. A batch is never written twice.
--
-- KEYS sentinel run events
-- ARGS
--   s.token
--   s.fence int
--   s.events_cap int   see append_event
--   s.short number     bytes
--   s.large_bytes int
--   ttl int            the sentinel's, ms
--   number             of this batch within the turn, from 1
--   batch list         events, JSON
-- RETURNS
--   'ok'
--   'lost'

local call, pcall, try = redis.call, redis.pcall, pcall
local KEYS, ARGV = KEYS, ARGV
local s_sentinel, s_run, s_events, s_token, s_fence, s_events_cap, s_short, s_large_bytes = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]
local function fields_1(key)
  local v = call('HMGET', key, 'token', 'fence', 'seq')
  return {token = v[1], fence = v[2], seq = v[3]}
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

-- owned(s, run) returns whether the turn still belongs to this token and fence. If not, nothing may
-- be written.
local function owned(s_fence, s_sentinel, s_token, run)
  return run.token == s_token and run.fence == s_fence and (redis.call('GET', s_sentinel) == s_token)
end

local ttl, number = ARGV[6], ARGV[7]
local at = 8
local function list()
  local l, n = {}, tonumber(ARGV[at])
  for i = 1, n do l[i] = ARGV[at + i] end
  at = at + n + 1
  return l
end
local batch = list()

local run = fields_1(s_run)
if not owned(s_fence, s_sentinel, s_token, run) then return {'lost'} end
local at, last = string.match(run.seq or '', '^(%d+) (%d+)$') -- of which turn
call('XLEN', s_events)
call('PEXPIRE', s_sentinel, ttl)
if at == s_fence and tonumber(last) >= tonumber(number) then return {'ok'} end
call('HSET', s_run, 'seq', s_fence .. ' ' .. number)
for _, event in ipairs(batch) do append_event(s_events, s_events_cap, s_large_bytes, s_run, s_short, event) end
return {'ok'}
