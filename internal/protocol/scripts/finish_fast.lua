-- Code generated from ../lua/finish.lua by go generate; DO NOT EDIT.
--
-- finish: ends a turn. It acks or archives the turn's messages, appends its entries and publishes
-- its reply. Then it takes the next message under the same sentinel with a new fence, or releases
-- the session. It does all of this or nothing.
--
-- The fast path is for the common case: the turn had one message and is done, and its session is
-- ordinary. It ends the turns of many sessions in one call. In other cases it undoes its writes,
-- and the worker sends the full path.
--
-- KEYS sentinel run followups paused scheduled retry events transcript pending active completed processed processed_day
-- ARGS
--   s.events_cap int           see append_event
--   s.short number             bytes
--   s.large_bytes int
--   transcript_ttl int         ms
--   phase                      of a next turn
--   s.longest number           how many bytes a task's msg may have
--   warm bit                   the worker keeps agents warm
-- EACH
--   s.task                     prefix of the task hashes
--   s.token
--   s.fence int
--   outcome                    JSON: the event and the tasks' result
--   start                      the turn's start, JSON, if the stream does not have it yet, or ''
--   bounds                     of the transcript, see bound_transcript; '': it is not bounded now
-- EACH
--   id                         of the task
--   msg                        its message, completed
--   following_fence            of the next turn; '': take no next message
--   now int                    Redis' clock, ms, as the worker estimates it
--   score int                  of a completed task, seconds
--   total int                  entries of the transcript with these
--   done int                   ended messages that are not counted yet, with this
-- EACH
--   entries range              JSON
-- RETURNS
--   'next' now:int fence:int sid entries:int dropped messages:message     as in claim
--   'released' at:int now:int            at: when it can be claimed again, ms; 0: never
--   'following' id msg age:ms redelivered:int unique:flag     the fast path's 'next': its caller knows the rest
--   'lost'
--   'special'                            the fast path has done nothing
--   message: id msg age:ms redelivered:int unique:flag steer:flag     as in claim
--
-- A repetition returns the same, or 'special' on the fast path. The fast path writes statistics
-- every ten turns and with a release. Until then the run record counts these turns, and the next
-- claim writes those of a dead owner.

local call, pcall, try = redis.pcall, redis.pcall, pcall
local KEYS, ARGV = KEYS, ARGV
local s_events_cap = ARGV[1]
local s_short = tonumber(ARGV[2])
local s_large_bytes = ARGV[3]
local s_longest = tonumber(ARGV[6])

-- activate(s, id, seen, at) writes that a task is in active. seen is its field, or false: then it
-- becomes at.
local function activate(s_task, id, seen, at)
  if seen then
    call('HSET', s_task .. id, 'state', 'active')
  else
    call('HSET', s_task .. id, 'state', 'active', 'seen', at)
  end
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

-- One call frees about FREED bytes more than its turn has written. Written text takes up to twice
-- its size.
local FREED = 16 * 1024 * 1024

-- bound_transcript(s, len, count, bounds) bounds a transcript of len entries, after a turn has
-- appended count. bounds is "entries bytes size". It keeps the newest entries. While these take
-- more memory in Redis than bytes, it removes the oldest, a sixteenth at a time. size is how many
-- bytes the turn's entries have; 0: the memory need not be measured. If a limit was lowered, the
-- next turns remove the rest.
--
-- The memory is measured, not counted: other programs may change the transcript, too.
local function bound_transcript(s_transcript, len, count, bounds)
  local cap, most, size = string.match(bounds, '^(%d+) (%d+) (%d+)$')
  cap, most, size = tonumber(cap), tonumber(most), tonumber(size)
  if len > cap then
    pcall('LTRIM', s_transcript, string.format('%d', (math.min(len - cap, count + 1000))), '-1')
    len = cap
  end
  if size == 0 then return end
  local first, freed = false, FREED + 2 * size
  for _ = 1, 64 do
    local bytes = pcall('MEMORY', 'USAGE', s_transcript, 'SAMPLES', '0')
    if type(bytes) ~= 'number' then bytes = pcall('MEMORY', 'USAGE', s_transcript) end -- the embedded server knows no SAMPLES
    first = first or bytes
    if type(bytes) ~= 'number' or bytes <= most or len <= 1 or first - bytes >= freed then return end
    local out = math.max(math.floor(len / 16), 1)
    pcall('LTRIM', s_transcript, out, '-1')
    len = len - out
  end
end

-- set_idle(s, warm, ...) writes the run record of a session that finish releases. Most sessions are
-- idle, so it deletes fields that only a turn needs. The name of a worker that keeps agents warm
-- stays: senders notify it of the next message first. The last arguments are further fields.
local function set_idle(s_run, warm, ...)
  call('HSET', s_run, 'phase', 'idle', ...)
  if warm == '1' then
    call('HDEL', s_run, 'token', 'started_at', 'done')
  else
    call('HDEL', s_run, 'token', 'started_at', 'done', 'worker')
  end
end

-- take_ordinary(s) moves the head of the queue to active if it is an ordinary message: it
-- waits for nothing, has no route and can be read. Returns its id, msg, seen, redelivered and
-- unique_key. If not, it moves the head back, and returns false and the head: an id, or false if
-- the queue is empty.
local function take_ordinary(s_active, s_longest, s_pending, s_task)
  local id = call('RPOPLPUSH', s_pending, s_active)
  if type(id) ~= 'string' then return false, id end
  local bytes = call('HSTRLEN', s_task .. id, 'msg')
  if type(bytes) == 'number' and bytes <= s_longest then
    local v = call('HMGET', s_task .. id, 'msg', 'seen', 'redelivered', 'quiet', 'unique_key', 'route')
    local t_msg, t_seen, t_redelivered, t_quiet, t_unique_key, t_route = v[1], v[2], v[3], v[4], v[5], v[6]
    if t_msg and not t_quiet and not t_route and string.find(id, '^[%w%-._:@+=~]*$') then
      return id, t_msg, t_seen, t_redelivered, t_unique_key
    end
  end
  call('LMOVE', s_active, s_pending, 'LEFT', 'RIGHT')
  return false, id
end

local transcript_ttl, phase, warm = ARGV[4], ARGV[5], ARGV[7]

-- follow(now, id, msg, seen, redelivered, unique_key) returns the message as a flat result, because
-- a nested table costs as much as all its fields.
local function follow(now, id, msg, seen, redelivered, unique_key)
  local age = now - (tonumber(seen) or now)
  if redelivered or unique_key then
    return {'following', id, msg, age, tonumber(redelivered) or 0, unique_key and 1 or 0}
  end
  return {'following', id, msg, age}
end

-- Each round serves the session whose keys come after KEYS[k], and whose arguments after ARGV[a].
local results, k, a = {}, 0, 7
while KEYS[k + 1] do
  local result
  repeat
    local s_sentinel, s_run, s_followups, s_paused, s_scheduled, s_retry, s_events, s_transcript, s_pending, s_active, s_completed, s_processed, s_processed_day = unpack(KEYS, k + 1, k + 13)
    local s_task, s_token, s_fence, outcome, start, bounds, id, msg, following_fence, now, score, total, done = unpack(ARGV, a + 1, a + 13)
    local entries_first, entries_last = a + 15, a + 14 + ARGV[a + 14]
    local v = call('HMGET', s_run, 'fence', 'special', 'rotated')
    local run_fence, run_special, run_rotated = v[1], v[2], v[3]
    if call('GET', s_sentinel) ~= s_token then result = false break end
    if run_fence ~= s_fence then
      if run_fence ~= following_fence then result = false break end
      local again = string.match(call('HGET', s_run, 'ids') or '', '^%["(.*)"%]$') -- a repetition
      local function of(field) return call('HGET', s_task .. again, field) end
      result = again and of('msg') and follow(now, again, of('msg'), of('seen'), of('redelivered'), of('unique_key')) break
    end
    if (run_special or '') ~= '' or (run_rotated or '') ~= '' or call('EXISTS', s_followups, s_paused, s_scheduled, s_retry) ~= 0
      or following_fence == '' and call('EXISTS', s_pending) ~= 0
      or call('LREM', s_active, '1', id) ~= 1 then
      result = false break
    end

    local added, len, ordinary = false, 0, true
    local next_id, next_msg, seen, redelivered, unique_key = false, false, false, false, false
    if following_fence ~= '' then
      next_id, next_msg, seen, redelivered, unique_key = take_ordinary(s_active, s_longest, s_pending, s_task)
      if next_msg and not next_id then ordinary = false end
    end
    if ordinary then
      added = call('ZADD', s_completed, score, id)
      ordinary = type(added) == 'number'
    end
    local count = entries_last - entries_first + 1
    if ordinary and count > 0 then
      len = call('RPUSH', s_transcript, unpack(ARGV, entries_first, entries_last))
      ordinary = type(len) == 'number'
    end
    local set = ordinary and call('HSET', s_task .. id, 'state', 'completed', 'result', outcome, 'msg', msg)
    if type(set) ~= 'number' or set == 3 then -- 3: there was no such task
      if set == 3 then call('DEL', s_task .. id) end
      if type(len) == 'number' and len > 0 then call('RPOP', s_transcript, count) end
      if added == 1 then call('ZREM', s_completed, id) end
      if next_id then call('LMOVE', s_active, s_pending, 'LEFT', 'RIGHT') end
      call('RPUSH', s_active, id)
      result = false break
    end

    if bounds ~= '' then bound_transcript(s_transcript, len, count, bounds) end
    if count > 0 and (len == count or not next_id) then call('PEXPIRE', s_transcript, transcript_ttl) end
    append_event(s_events, s_events_cap, s_large_bytes, s_run, s_short, outcome, start)
    if not next_id or done == '10' then
      if not call('SET', s_processed_day, done, 'NX', 'EX', '7776000') then call('INCRBY', s_processed_day, done) end
      call('INCRBY', s_processed, done)
      done = '0'
    end
    if not next_id then
      call('DEL', s_sentinel)
      set_idle(s_run, warm, 'last', s_token .. ' ' .. s_fence .. ' released', 'entries', total, 'ended_at', now)
      result = {'released'} break
    end
    activate(s_task, next_id, seen, now)
    if phase == 'running' then
      call('HSET', s_run, 'fence', following_fence, 'ids', ('["' .. next_id .. '"]'), 'started_at', now, 'entries', total, 'done', done)
    else
      call('HSET', s_run, 'fence', following_fence, 'ids', ('["' .. next_id .. '"]'), 'started_at', now, 'entries', total, 'done', done, 'phase', phase)
    end
    result = follow(now, next_id, next_msg, seen, redelivered, unique_key) break
  until true
  results[#results + 1] = result or {'special'}
  k, a = k + 13, a + 14 + ARGV[a + 14]
end
return results
