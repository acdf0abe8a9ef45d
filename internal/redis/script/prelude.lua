-- The functions that all scripts of Turnstile share. This text stands before each script's own text
-- and writes nothing. The functions are locals: a script that does not use one pays only for its
-- definition.

-- Redis' clock in milliseconds. No script reads another clock.
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- A whole number as text. Lua would write large ones as 1.7e+12.
local function int(number)
  return string.format('%d', number)
end

-- The fencing token that follows the stored one: a text, or false or nil if there is none. It is at
-- least the clock's time, so it rises even if the stored one was lost.
local function next_fence(stored, now)
  return math.max((tonumber(stored or 0) or 0) + 1, now)
end

-- Whether the sentinel exists and has this token.
local function owns(sentinel_key, token)
  return redis.call('GET', sentinel_key) == token
end
