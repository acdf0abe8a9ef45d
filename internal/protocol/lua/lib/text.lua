-- Texts that scripts write: JSON, and protobuf for asynq's TaskMessage.

-- quote(text) returns a JSON string.
local function quote(text)
  if string.find(text, '^[%w%-._:@+=~]*$') then return '"' .. text .. '"' end
  return cjson.encode(text)
end

-- valid(text) returns a text as valid UTF-8: in an invalid text it replaces the bytes beyond ASCII.
local function valid(text)
  if not string.find(text, '[\128-\255]') then return text end
  local rest = text
  for _, sequence in ipairs{'[\194-\223][\128-\191]', '\224[\160-\191][\128-\191]', '[\225-\236\238\239][\128-\191][\128-\191]',
    '\237[\128-\159][\128-\191]', '\240[\144-\191][\128-\191][\128-\191]', '[\241-\243][\128-\191][\128-\191][\128-\191]',
    '\244[\128-\143][\128-\191][\128-\191]'} do
    rest = string.gsub(rest, sequence, ' ')
  end
  if not string.find(rest, '[\128-\255]') then return text end
  return (string.gsub(text, '[\128-\255]', '\239\191\189'))
end

-- varint(n) returns n as protobuf writes it.
local function varint(n)
  local text = ''
  while n >= 128 do
    text = text .. string.char(n % 128 + 128)
    n = math.floor(n / 128)
  end
  return text .. string.char(n)
end

-- varint_at(msg, at) returns the number at that place, and where it ends; or false if there is
-- none.
local function varint_at(msg, at)
  local n, factor = 0, 1
  for i = at, at + 9 do
    local b = string.byte(msg, i)
    if not b then return false end
    n = n + b % 128 * factor
    if b < 128 then return n, i end
    factor = factor * 128
  end
  return false
end

-- without(msg, numbers) returns a TaskMessage without the fields of these numbers. It leaves
-- everything after the first thousand fields, or from an unreadable field on, as it is.
local function without(msg, numbers)
  local kept, from, at = {}, 1, 1
  for _ = 1, 1000 do
    local tag, last = varint_at(msg, at)
    local kind, n = tag and tag % 8, false
    if kind == 0 then
      n, last = varint_at(msg, last + 1)
    elseif kind == 1 then
      n, last = true, last + 8
    elseif kind == 2 then
      n, last = varint_at(msg, last + 1)
      if n then last = last + n end
    elseif kind == 5 then
      n, last = true, last + 4
    end
    if not n or last > #msg then break end
    if numbers[math.floor(tag / 8)] then
      kept[#kept + 1] = string.sub(msg, from, at - 1)
      from = last + 1
    end
    at = last + 1
  end
  return table.concat(kept) .. string.sub(msg, from)
end

-- with_completion(msg, retention, seconds) returns the TaskMessage of a message that was completed
-- at seconds and is kept for retention seconds. The last one of a repeated field counts, so a field
-- is changed by appending it: 12 retention, 13 completed_at.
local function with_completion(msg, retention, seconds)
  return msg .. '\96' .. varint(retention) .. '\104' .. varint(seconds)
end

-- with_error(msg, why, seconds) returns a TaskMessage after a failure: 7 error_msg, 11
-- last_failed_at. It removes those of earlier failures, so that the task does not grow.
local function with_error(msg, why, seconds)
  return without(msg, {[7] = true, [11] = true}) .. '\58' .. varint(#why) .. why .. '\88' .. varint(seconds)
end

-- tombstone(s, id, bytes) returns the TaskMessage that replaces one that is too long to be read. 1
-- type, 2 payload, 3 id, 4 queue; Limits.DecodePayload reads too_long.
local function tombstone(s, id, bytes)
  local payload, queue = '{"v":1,"text":"","too_long":' .. int(bytes) .. '}', string.match(s.task, '{(.*)}')
  return '\10' .. varint(17) .. 'turnstile:message' .. '\18' .. varint(#payload) .. payload ..
    '\26' .. varint(#id) .. id .. '\34' .. varint(#queue) .. queue
end
