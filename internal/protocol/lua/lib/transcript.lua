-- Transcripts, for the scripts that append to them.

-- One call frees about so many bytes more than what its turn has written, which takes up
-- to twice its size.
local FREED = 16 * 1024 * 1024

-- bound_transcript(s, len, count, bounds): a turn has appended count entries to a transcript that
-- has len of them now. bounds: "entries bytes size". It keeps the newest entries, and the oldest go
-- for as long as it takes more than these bytes of Redis' memory, a sixteenth at a time. size is that
-- of the turn's entries, in bytes; 0: the memory need not be measured. What is left then, after a
-- limit was lowered, is the next turn's.
--
-- It is measured, and not counted: whoever else has written to it, or taken out of it, may
-- know of no count.
local function bound_transcript(s, len, count, bounds)
  local cap, most, size = string.match(bounds, '^(%d+) (%d+) (%d+)$')
  cap, most, size = tonumber(cap), tonumber(most), tonumber(size)
  if len > cap then
    pcall('LTRIM', s.transcript, int(math.min(len - cap, count + 1000)), '-1')
    len = cap
  end
  if size == 0 then return end
  local first, freed = false, FREED + 2 * size
  for _ = 1, 64 do
    local bytes = pcall('MEMORY', 'USAGE', s.transcript, 'SAMPLES', '0')
    if type(bytes) ~= 'number' then bytes = pcall('MEMORY', 'USAGE', s.transcript) end -- the embedded server samples nothing
    first = first or bytes
    if type(bytes) ~= 'number' or bytes <= most or len <= 1 or first - bytes >= freed then return end
    local out = math.max(math.floor(len / 16), 1)
    pcall('LTRIM', s.transcript, out, '-1')
    len = len - out
  end
end
