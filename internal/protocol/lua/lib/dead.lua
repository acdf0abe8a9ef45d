-- What a claim writes for a turn whose worker died.

-- dead_event(s, run, ids, ended) returns the start of a dead owner's run, or its end: ended has the further fields.
local function dead_event(s, run, ids, ended)
  local _, began, keeps = carries_on(s, run.fence)
  local continues = ''
  if began > 0 and began ~= tonumber(run.fence) then
    continues = ',"continues":"' .. s.prefix .. int(began) .. '"' .. (ended and '' or ',"keeps":' .. int(keeps))
  end
  return '{"type":"' .. (ended and 'turn_ended' or 'turn_started') .. '","session_id":"' .. (run.sid or '') .. '","turn":"' .. s.prefix .. run.fence ..
    '","fence":' .. run.fence .. ',"messages":' .. list_of(s, ids) .. continues .. (ended or '') .. '}'
end

-- doubts(s, run, ttl) returns whether the dead owner has one more TTL to report that it lives, before a step that cannot
-- be taken back.
local function doubts(s, run, ttl)
  if run.doubted == run.fence then return false end
  if call('SET', s.sentinel, IN_DOUBT, 'NX', 'PX', ttl) then call('HSET', s.run, 'doubted', run.fence) end
  return true
end

-- end_unwritten(s, run, group, how, now, shown) ends a turn whose worker died when it was to write this end. What killed
-- it may be in the log: nobody reads that again, and the messages become dead letters. Steers go back to the queue if no
-- agent has made anything of them, as in any end but a stop's.
local function end_unwritten(s, run, group, how, now, shown)
  local status, why, code = 'failed', how, ',"code":"worker_died"'
  if how == 'stop' then
    status, why, code = 'stopped', WHY_STOPPED, ''
  elseif how == 'interrupt' or how == 'rollback' then
    status, why, code = 'interrupted', (how == 'interrupt' and 'interrupted' or 'rolled back') .. ' by a newer message', ''
  end
  local function outcome(ids)
    return dead_event(s, run, ids, ',"status":"' .. status .. '","error":' .. quote(why) .. code)
  end
  local ids, steers = {}, {}
  if how ~= 'stop' and call('EXISTS', s.journal) == 0 then
    while #group > 1 and group[#group].steer do table.insert(steers, 1, table.remove(group).id) end
  end
  local back = #steers > 0 and places(s, steers)
  for i, t in ipairs(group) do
    ids[i], t.unique = t.id, held_lock(t.id, t.unique_key)
  end
  local all = outcome(ids)
  call('ZCARD', s.archived)
  check_routes(s, group)

  call('DEL', s.lease) -- the first write frees memory
  if not shown then append_event(s, dead_event(s, run, cjson.decode(run.ids))) end
  for _, t in ipairs(group) do
    call('LREM', s.active, -1, t.id)
    archive(s, t.id, t.msg, t.unique, why, outcome{t.id}, now)
    pcall('HDEL', s.followups, own_id(s, t.id))
  end
  if (run.rotated or '') ~= '' then -- the mark is the old transcript's
    call('HDEL', s.resume, 'pending', 'reason', 'marked_at', 'suspended')
  else
    call('HSET', s.run, 'unsaid', run.fence .. ' ' .. ids[#ids])
  end
  if back then return_untaken(s, back) end
  call('DEL', s.journal)
  if how == 'rollback' then call('DEL', s.state) end -- it may have what was rolled back
  close_question(s, now)
  set_idle(s, '0', 'ended_at', int(now))
  keep_promises(s, group, all, now)
  count_archived(s, #ids)
  append_event(s, all)
end
