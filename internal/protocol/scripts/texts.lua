-- Code generated from ../lua/texts.lua by go generate; DO NOT EDIT.
--
-- texts: reads texts in the session's hashes, or only their beginnings. Writes nothing.
--
-- KEYS followups
-- ARGS
--   room number      how many bytes it reads. The last text may exceed that: it reads at least one, however long
--   wanted list      for each text its hash ('': the follow-ups), its field, and how many of its bytes are wanted
-- RETURNS
--   result: texts...     of the first ones, as many as there is room for: how many bytes each has, a blank, and those that
--     are wanted; '' if there is none

local call, pcall, try = redis.call, redis.pcall, pcall
local KEYS, ARGV = KEYS, ARGV
local s_followups = KEYS[1]
local room = tonumber(ARGV[1])
local at = 2
local function list()
  local l, n = {}, tonumber(ARGV[at])
  for i = 1, n do l[i] = ARGV[at + i] end
  at = at + n + 1
  return l
end
local wanted = list()

local list, total = {}, 0
for i = 1, #wanted, 3 do
  if total >= room then break end
  local text = call('HGET', wanted[i] ~= '' and wanted[i] or s_followups, wanted[i + 1])
  list[#list + 1] = text and #text .. ' ' .. string.sub(text, 1, tonumber(wanted[i + 2])) or ''
  total = total + 32 + #(text or '') -- with the reply's framing
end
return list
