-- Code generated from ../lua/ask.lua by go generate; DO NOT EDIT.
--
-- ask: stores a question of the turn's agent, or withdraws it. Numbers of questions rise over the
-- session's life, so a late decision never matches a later question. A question with a key keeps its
-- number if the turn's next run asks it again, and a decision that came meanwhile counts. A wait for a
-- program's value, or for a time, is stored as a question that no person sees.
--
-- KEYS sentinel run journal owed outbox deliveries
-- ARGS
--   s.task            prefix of the session's task hashes
--   s.prefix          of task ids
--   s.token
--   s.fence int
--   ttl int           the sentinel's, ms
--   nth number        which of the turn's questions, from 1
--   question          JSON; '': it is withdrawn. A wait's begins with its kind
--   key               its name in all runs of the turn, or ''. To withdraw with it is to deny it
-- RETURNS
--   'ok' decision number:int by at:int     decision: the user's, if there is one already, or ''; number: the
--     question's, or 0 if it was never asked; by: who has decided, '' if unknown, or with the decision 'value'
--     the value, JSON, once it is in the journal; at: when it was asked first, ms
--   'lost'

local call, pcall, try = redis.call, redis.pcall, pcall
local KEYS, ARGV = KEYS, ARGV
local s_sentinel, s_run, s_journal, s_owed, s_outbox, s_deliveries, s_task, s_prefix, s_token, s_fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local function fields_1(key)
  local v = call('HMGET', key, 'token', 'fence', 'questions', 'answered', 'ids')
  return {token = v[1], fence = v[2], questions = v[3], answered = v[4], ids = v[5]}
end
local function fields_2(key)
  local v = call('HMGET', key, 'fence', 'waits')
  return {fence = v[1], waits = v[2]}
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

-- quote(text) returns a JSON string.
local function quote(text)
  if string.find(text, '^[%w%-._:@+=~]*$') then return '"' .. text .. '"' end
  return cjson.encode(text)
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

-- owned(s, run) returns whether the turn still belongs to this token and fence. If not, nothing may
-- be written.
local function owned(s_fence, s_sentinel, s_token, run)
  return run.token == s_token and run.fence == s_fence and (redis.call('GET', s_sentinel) == s_token)
end
local BODY, BODIES = 256 * 1024, 8 * 1024 * 1024 -- bytes of an outcome or question that a record carries, and all records of one end

-- by_route(tasks) returns the routes of these tasks, in the order of their first messages, and
-- the ids of each.
local function by_route(tasks)
  local routes, ids = {}, {}
  for _, t in ipairs(tasks) do
    if t.route then
      if not ids[t.route] then
        routes[#routes + 1], ids[t.route] = t.route, {}
      end
      table.insert(ids[t.route], t.id)
    end
  end
  return routes, ids
end

-- own_end(s, ids) returns the deadline of a record of these messages, ms: the latest of theirs. It
-- returns false if one of them has none: then the record's age counts.
local function own_end(s_deliveries, s_prefix, ids)
  local latest = 0
  for _, id in ipairs(ids) do
    local by = tonumber(call('HGET', s_deliveries, 'deliver_by ' .. own_id(s_prefix, id)) or '')
    if not by then return false end
    latest = math.max(latest, by)
  end
  return latest
end

-- put_question(s, tasks, turn, number, question, now) delivers a question of a turn to the routes of
-- the turn's tasks, {id, route} each. The field question of s.deliveries remembers a line for each:
-- "member number ids route".
local function put_question(s_deliveries, s_outbox, s_prefix, s_task, tasks, turn, number, question, now)
  local routes, ids = by_route(tasks)
  local open, rest = {}, ''
  if #question > math.min(BODY, BODIES / #routes) then
    local name = string.match(question, '^{"name":("[^"\\]*")')
    question, rest = '{"name":' .. (name and #name <= 1000 and name or '""') .. '}', ',"truncated":true'
  end
  for i, route in ipairs(routes) do
    local member = add_record(s_deliveries, s_outbox, s_prefix, s_task, route, 'question.asked', ids[route], ',"turn":' .. quote(turn) .. ',"number":' .. number ..
      ',"question":' .. question .. rest, now, own_end(s_deliveries, s_prefix, ids[route]))
    open[i] = member .. ' ' .. number .. ' ' .. table.concat(ids[route], ',') .. ' ' .. route
  end
  if #open > 0 then call('HSET', s_deliveries, 'question', table.concat(open, '\n')) end
end

-- check_outbox(s) fails on a key of a wrong type, before a script's first write.
local function check_outbox(s_deliveries, s_outbox, s_owed)
  call('HLEN', s_owed)
  call('ZCARD', s_outbox)
  call('HLEN', s_deliveries)
end

-- route_of(s, id) returns a task's route, or false. Scripts call it before their first write.
local function route_of(s_deliveries, s_outbox, s_owed, s_task, id)
  local route = call('HGET', s_task .. id, 'route')
  if route then check_outbox(s_deliveries, s_outbox, s_owed) end
  return route
end

local ttl, nth, question, key = ARGV[5], tonumber(ARGV[6]), ARGV[7], ARGV[8]

local run = fields_1(s_run)
if not owned(s_fence, s_sentinel, s_token, run) then return {'lost'} end
local last, of, asked, at = string.match(run.questions or '', '^(%d+) (%d+) (%d+) (%d+)$')
last = tonumber(last) or 0
asked = of == s_fence and tonumber(asked) or 0
local journal = key ~= '' and fields_2(s_journal) or {}
local keyed = journal.fence == s_fence
local before = keyed and question ~= '' and call('HGET', s_journal, 'a:' .. key) -- decided, maybe in an earlier run
-- It was asked in an earlier run, and no other one since.
local again = keyed and question ~= '' and journal.waits == string.format('%d', last) .. ' ' .. key
local number = 0
if nth == asked or again then
  number = last -- sent again, or withdrawn
elseif nth > asked and question ~= '' then
  number, at = last + 1, string.format('%d', (now_ms()))
end
local put, tasks = number > last or again and call('HEXISTS', s_deliveries, 'question') == 0, {}
local kind, proof = string.match(question, '^{"kind":"(%l+)","proof":"(%x*)"')
local shown = not kind
if put and shown and not before then
  for _, id in ipairs(cjson.decode(run.ids)) do tasks[#tasks + 1] = {id = id, route = route_of(s_deliveries, s_outbox, s_owed, s_task, id)} end
end
local turn, to, decision, by = string.match(run.answered or '', '^(%d+) (%d+) (%S+)%s?%S*%s?(.*)$')
if turn ~= s_fence or tonumber(to) ~= number then decision, by = '', '' end
if decision == 'value' then by = '' end -- who has given it

call('PEXPIRE', s_sentinel, ttl)
if before then
  local n, was, who = string.match(before, '^(%d+) (%S+) ?(.*)$')
  return {'ok', was, tonumber(n), who, 0}
end
if nth < asked then return {'ok', '', 0, '', 0} end -- a later question was asked since
if question == '' or put then close_question(s_deliveries, s_outbox, s_prefix, s_task, now_ms()) end
if put and shown then put_question(s_deliveries, s_outbox, s_prefix, s_task, tasks, s_prefix .. s_fence, string.format('%d', number), question, now_ms()) end
if question == '' then
  call('HDEL', s_run, 'question')
  if keyed and decision == '' and number > 0 then call('HSET', s_journal, 'a:' .. key, string.format('%d', number) .. ' deny') end
else
  call('HSET', s_run, 'question', s_fence .. ' ' .. string.format('%d', number) .. ' ' .. question,
    'questions', string.format('%d', number) .. ' ' .. s_fence .. ' ' .. string.format('%d', nth) .. ' ' .. at)
  if keyed then call('HSET', s_journal, 'waits', string.format('%d', number) .. ' ' .. key) end
  if keyed and kind then call('HSET', s_journal, 'p:' .. key, string.format('%d', number) .. ' ' .. kind .. ' ' .. proof) end
end
return {'ok', decision, number, by, tonumber(at) or 0}
