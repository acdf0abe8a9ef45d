-- Transcripts, for the scripts that append to them.

-- A transcript is measured when a turn has written so many bytes to it, and with every so
-- many entries.
local MEASURED_BYTES = 65536
local MEASURED_ENTRIES = 32

-- One call frees about so many bytes more than what its turn has written, which takes up
-- to twice its size.
local FREED = 16 * 1024 * 1024

-- bound_transcript(s, len, most, entries, count, size): a turn has appended count entries,
-- of size bytes, to a transcript that has len of them now, and to which entries were ever
-- written. The oldest go for as long as it takes more than most bytes of Redis' memory, a
-- sixteenth at a time. What is left then, after a limit was lowered, is the next turn's.
--
-- It is measured, and not counted: whoever else has written to it, or taken out of it, may
-- know of no count.
local function bound_transcript(s, len, most, entries, count, size)
  if size < MEASURED_BYTES and entries % MEASURED_ENTRIES >= count then return end
  local call, first, freed = redis.pcall, false, FREED + 2 * size
  for _ = 1, 64 do
    local bytes = call('MEMORY', 'USAGE', s.transcript, 'SAMPLES', '0')
    if type(bytes) ~= 'number' then bytes = call('MEMORY', 'USAGE', s.transcript) end -- the embedded server samples nothing
    first = first or bytes
    if type(bytes) ~= 'number' or bytes <= most or len <= 1 or first - bytes >= freed then return end
    local out = math.max(math.floor(len / 16), 1)
    call('LTRIM', s.transcript, out, '-1')
    len = len - out
  end
end
