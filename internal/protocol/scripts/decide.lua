-- Code generated from ../lua/decide.lua by go generate; DO NOT EDIT.
--
-- decide: stores the user's decision on a question of the running turn, or the value for which the turn
-- waits. The owner gets it at once, or with its next renewal. A turn that is parked for it may go on.
--
-- KEYS sentinel run journal outbox deliveries audit
-- ARGS
--   s.task           prefix of the session's task hashes
--   s.prefix         of task ids
--   number           of the question, or '' for the one that the user sees. A turn's fence and a blank
--     before it mean that turn only
--   decision         'allow', 'always', 'deny', or 'value'
--   key              of the wait that gets the value
--   value            JSON
--   proof            what the wait must have as its proof; '': it is not checked
--   name             of this call, to recognize its repetition
--   s.by             who decides, or '': unknown
--   only             the question that was checked: no other is decided; '': none was
--   settle number    for how long a user may still see the question before it, ms
-- RETURNS
--   'ok' number:int question fence wake:flag     wake: 1 if the session is to be claimed
--   'none'                      there is no question
--   'other' number:int question fence     the open question is another one
--   'new' number:int question fence       the open question, which the user may not have seen yet
--   'answered'                  another decision came first
--   'wrong'                     the wait has another proof

local call, pcall, try = redis.call, redis.pcall, pcall
local KEYS, ARGV = KEYS, ARGV
local s_sentinel, s_run, s_journal, s_outbox, s_deliveries, s_audit, s_task, s_prefix, s_by = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], ARGV[1], ARGV[2], ARGV[9]
local function fields_1(key)
  local v = call('HMGET', key, 'token', 'worker', 'fence', 'question', 'answered', 'questions', 'phase', 'stop', 'rollback', 'interrupt')
  return {token = v[1], worker = v[2], fence = v[3], question = v[4], answered = v[5], questions = v[6], phase = v[7], stop = v[8], rollback = v[9], interrupt = v[10]}
end
local function fields_2(key)
  local v = call('HMGET', key, 'fence', 'waits')
  return {fence = v[1], waits = v[2]}
end
local AUDIT_LINES, AUDIT_TTL = '-1000', '2592000' -- the last thousand, for 30 days

-- quote(text) returns a JSON string.
local function quote(text)
  if string.find(text, '^[%w%-._:@+=~]*$') then return '"' .. text .. '"' end
  return cjson.encode(text)
end

-- audit(s, did, what, now) appends a line to the session's audit: s.by did something to what. It fails
-- no move: a key of a wrong type is skipped.
local function audit(s_audit, s_by, did, what, now)
  pcall('RPUSH', s_audit, '{"at":' .. string.format('%d', now) .. ',"by":' .. quote(s_by) .. ',"did":"' .. did .. '","what":' .. quote(what) .. '}')
  pcall('LTRIM', s_audit, AUDIT_LINES, '-1')
  pcall('EXPIRE', s_audit, AUDIT_TTL)
end

-- count_for(s, to, n) adds n to a destination's count of undelivered outcomes.
local function count_for(s_deliveries, to, n)
  if n ~= 0 and call('HINCRBY', s_deliveries, 'n ' .. to, n) <= 0 then call('HDEL', s_deliveries, 'n ' .. to) end
end

-- own_id(s, id) returns the message id of a task.
local function own_id(s_prefix, id)
  if string.sub(id, 1, #s_prefix) == s_prefix then return string.sub(id, #s_prefix + 1) end
  return id
end

-- list_of(s, ids) returns the messages' own ids as JSON.
local function list_of(s_prefix, ids)
  local named = {}
  for i, id in ipairs(ids) do named[i] = quote(own_id(s_prefix, id)) end
  return '[' .. table.concat(named, ',') .. ']'
end
local LAST = 2 ^ 52 -- no sequence is above it. It is exact as a number, and 140,000 years away as a time

-- next_sequence(s, now) returns the sequence of a new record, as text. It rises with Redis' clock, so
-- it is higher after an erase, too.
local function next_sequence(s_deliveries, now)
  local last = tonumber(call('HGET', s_deliveries, 'seq')) or 0
  return string.format('%d', (math.max(last < LAST and last + 1 or 0, now)))
end

-- timestamp(now) returns a time in ms in RFC 3339. The days are counted from March, so that a leap
-- day is the last of its year.
local function timestamp(now)
  local days, ms = math.floor(now / 86400000) + 719468, now % 86400000
  local era = math.floor(days / 146097)
  local day = days - era * 146097
  local year = math.floor((day - math.floor(day / 1460) + math.floor(day / 36524) - math.floor(day / 146096)) / 365)
  day = day - 365 * year - math.floor(year / 4) + math.floor(year / 100)
  local month = math.floor((5 * day + 2) / 153)
  day = day - math.floor((153 * month + 2) / 5) + 1
  if month < 10 then month = month + 3 else month = month - 9 end
  year = year + era * 400
  if month < 3 then year = year + 1 end
  return string.format('%04d-%02d-%02dT%02d:%02d:%02d.%03dZ', year, month, day, math.floor(ms / 3600000), math.floor(ms / 60000) % 60,
    math.floor(ms / 1000) % 60, ms % 1000)
end

-- add_record(s, route, kind, ids, data, now, by) stores a record for a route's destination, and
-- notifies the deliverers. ids are its messages; data is the rest of its data, as JSON; by is
-- own_end's result. Returns its member of s.outbox.
local function add_record(s_deliveries, s_outbox, s_prefix, s_task, route, kind, ids, data, now, by)
  local to, of, context = string.match(route, '^(%S+) (%S+) (.*)$')
  local sequence = next_sequence(s_deliveries, now)
  local body = '{"type":"' .. kind .. '","timestamp":"' .. timestamp(now) .. '","data":{"session":' .. quote(string.match(s_task, '{session:(.*)}')) ..
    ',"messages":' .. list_of(s_prefix, ids)
  if of ~= '-' then body = body .. ',"retry_of":' .. quote(of) end
  if context ~= '' then body = body .. ',"context":' .. context end
  call('HSET', s_deliveries, 'seq', sequence, sequence, body .. data .. '}}')
  if by then call('HSET', s_deliveries, 'by ' .. sequence, string.format('%d', by)) end
  call('ZADD', s_outbox, '0', to .. ' ' .. sequence)
  count_for(s_deliveries, to, 1)
  call('PUBLISH', 'turnstile:signal:outbox', string.match(s_task, '{session:(.*)}'))
  return to .. ' ' .. sequence
end

-- forget_record(s, sequence) deletes the text of a record and the facts about it: 'id sequence' is
-- its first sequence, 'why sequence' why it was given up, 'unsure sequence' that it may have been
-- delivered before it was redriven, 'refused sequence' how often its receiver refused it, and 'by
-- sequence' its deadline, if its messages have one.
local function forget_record(s_deliveries, sequence)
  call('HDEL', s_deliveries, sequence, 'id ' .. sequence, 'why ' .. sequence, 'unsure ' .. sequence, 'refused ' .. sequence, 'by ' .. sequence)
end

-- line_records(s, to, most) returns the first members of s.outbox for a destination.
local function line_records(s_outbox, to, most)
  return call('ZRANGEBYLEX', s_outbox, '[' .. to .. ' ', '[' .. to .. ' \255', 'LIMIT', '0', most)
end

-- load_line(s, to) returns the state of a destination's queue: "token till attempts at unsure
-- error". token is the lease's until till; '-' and a token is the last lease, which was released.
-- attempts are those of the record at the head; the next one is not before at. unsure is 1 if one
-- of them may have been delivered. While a queue is leased, it is 1, or 2 if it was 1 before.
local function load_line(s_deliveries, to)
  local stored = call('HGET', s_deliveries, 'line ' .. to) or ''
  local token, till, attempts, at, unsure = string.match(stored, '^(%S+) (%d+) (%d+) (%d+) (%d)')
  return {token = token or '-', till = tonumber(till) or 0, attempts = tonumber(attempts) or 0, at = tonumber(at) or 0,
    unsure = tonumber(unsure) or 0}
end

-- close_question(s, now, decision) notifies the routes of the open question that it is closed, with
-- further fields of its decision if there is one. If no
-- deliverer can have tried to deliver the question yet, it is removed instead. A deliverer that has
-- leased the queue may have it, also after the head.
local function close_question(s_deliveries, s_outbox, s_prefix, s_task, now, decision)
  local open = pcall('HGET', s_deliveries, 'question')
  if type(open) ~= 'string' or type(pcall('ZCARD', s_outbox)) ~= 'number' then return end
  call('HDEL', s_deliveries, 'question')
  for entry in string.gmatch(open, '[^\n]+') do
    local to, sequence, number, ids, route = string.match(entry, '^(%S+) (%d+) (%d+) (%S+) (.*)$')
    local member, named = to .. ' ' .. sequence, {}
    local tried = load_line(s_deliveries, to).till > now
      or call('HEXISTS', s_deliveries, 'line ' .. to) == 1 and line_records(s_outbox, to, 1)[1] == member
    if not tried and call('ZREM', s_outbox, member) == 1 then
      forget_record(s_deliveries, sequence)
      count_for(s_deliveries, to, -1)
    else
      for id in string.gmatch(ids, '[^,]+') do named[#named + 1] = id end
      add_record(s_deliveries, s_outbox, s_prefix, s_task, route, 'question.closed', named, ',"number":' .. number .. (decision or ''), now)
    end
  end
end

-- Redis' clock in milliseconds. No script reads another clock.
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- requested(run, fence) returns 'stop', 'rollback' or 'interrupt' if that end of the turn was
-- requested, or ''.
local function requested(run, fence)
  if run.stop == fence then return 'stop' end
  if run.rollback == fence then return 'rollback' end
  if run.interrupt == fence then return 'interrupt' end
  return ''
end

local number, decision, key, value, proof, name, only, settle = ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[10], tonumber(ARGV[11])

local run = fields_1(s_run)
local of, to, _, by = string.match(run.answered or '', '^(%d+) (%d+) (%S+) (%S+)')
local fence, n, question = string.match(run.question or '', '^(%d+) (%d+) (.*)$')
local parked = run.phase == 'parked' and requested(run, run.fence) == ''
local journal = fields_2(s_journal)
local of_key, waits = string.match(journal.waits or '', '^(%d+) (.*)$')

-- A value counts as long as its turn has not ended, also between two runs, or while the turn waits for another one.
if decision == 'value' then
  local nth, kind, proven = string.match(journal.fence == run.fence and call('HGET', s_journal, 'p:' .. key) or '', '^(%d+) (%l+) (%x*)$')
  if kind ~= 'value' or requested(run, run.fence) ~= '' then return {'none'} end
  if proof ~= '' and proof ~= proven then return {'wrong'} end
  local before, given = call('HGET', s_journal, 'a:' .. key), nth .. ' value ' .. value
  if before and before ~= given then return {'answered'} end
  local open = fence == run.fence and n == nth
  call('HDEL', s_run, '') -- as below: a value lets its turn end
  if not before then
    call('HSET', s_journal, 'a:' .. key, given)
    if open then call('HSET', s_run, 'answered', fence .. ' ' .. n .. ' value ' .. name .. (s_by ~= '' and ' ' .. s_by or '')) end
    audit(s_audit, s_by, decision, s_prefix .. run.fence .. '.' .. nth, now_ms())
  end
  if open and parked then
    call('HSET', s_run, 'hold', '0')
  elseif open and (run.token or '') ~= '' then
    call('PUBLISH', 'turnstile:signal:' .. run.worker, '{"kind":"answer","token":"' .. run.token .. '","fence":' .. fence ..
      ',"question":' .. n .. ',"answer":"value"}')
  end
  return {'ok', tonumber(nth), '', run.fence, open and parked and 1 or 0}
end

if not fence or fence ~= run.fence or not parked and ((run.token or '') == '' or call('GET', s_sentinel) ~= run.token) then return {'none'} end
-- A repeated decision that was carried out must not decide a newer question.
if by == name and (of ~= fence or to ~= n) then return {'ok', tonumber(to), '', of, 0} end
if string.find(question, '^{"kind":') then return {'none'} end -- a program's, see ask
local turn, which = string.match(number, '^(%d+) (%d*)$')
if not which then turn, which = fence, number end
if which ~= '' and (which ~= n or turn ~= fence) then return {'other', tonumber(n), question, fence} end
if turn ~= fence then return {'new', tonumber(n), question, fence} end
local decided = of == fence and to == n
if not decided and only ~= '' and only ~= n then return {'new', tonumber(n), question, fence} end
if which == '' and not decided and tonumber(n) > 1 then
  local last, _, _, at = string.match(run.questions or '', '^(%d+) (%d+) (%d+) (%d+)$')
  if last == n and now_ms() - tonumber(at) < settle then return {'new', tonumber(n), question, fence} end
end
-- A full Redis refuses a script only until its first write, so that one frees memory.
call('HDEL', s_run, '')
if decided then
  if by ~= name then return {'answered'} end
else
  call('HSET', s_run, 'answered', fence .. ' ' .. n .. ' ' .. decision .. ' ' .. name .. (s_by ~= '' and ' ' .. s_by or ''))
  if of_key == n and journal.fence == fence then -- the turn's next runs get it, too
    call('HSET', s_journal, 'a:' .. waits, n .. ' ' .. decision .. (s_by ~= '' and ' ' .. s_by or ''))
  end
  close_question(s_deliveries, s_outbox, s_prefix, s_task, now_ms(), ',"decision":"' .. (decision == 'deny' and 'denied' or 'allowed') .. '"' .. (s_by ~= '' and ',"by":' .. quote(s_by) or ''))
  audit(s_audit, s_by, decision, s_prefix .. fence .. '.' .. n, now_ms())
end
if parked then
  call('HSET', s_run, 'hold', '0')
  return {'ok', tonumber(n), question, fence, 1}
end
call('PUBLISH', 'turnstile:signal:' .. run.worker, '{"kind":"answer","token":"' .. run.token .. '","fence":' .. fence ..
  ',"question":' .. n .. ',"answer":"' .. decision .. '","by":' .. quote(s_by) .. '}')
return {'ok', tonumber(n), question, fence, 0}
