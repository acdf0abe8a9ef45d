-- The bounds of transcripts, for the scripts that append to them.

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
    if type(bytes) ~= 'number' then bytes = pcall('MEMORY', 'USAGE', s.transcript) end -- the embedded server knows no SAMPLES
    first = first or bytes
    if type(bytes) ~= 'number' or bytes <= most or len <= 1 or first - bytes >= freed then return end
    local out = math.max(math.floor(len / 16), 1)
    pcall('LTRIM', s.transcript, out, '-1')
    len = len - out
  end
end
