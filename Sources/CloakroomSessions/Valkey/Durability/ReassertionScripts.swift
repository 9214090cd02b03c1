/// Writes that are repeated after a failover. They change nothing if the server has the same or something newer.
///
/// Several gateways repeat their writes in any order. The end of a session wins in each: it deletes a record that another
/// gateway has inserted again before, and its reason prevents one that comes later.
///
/// Like ``SessionScripts``, those that change a record end by reading from it, and return 0 if they have changed nothing.
enum ReassertionScripts {
    /// KEYS: record, lease, reason. ARGV: reason, milliseconds to keep it.
    static let end = ValkeyScript(
        """
        if redis.call('EXISTS', KEYS[1]) == 0 and redis.call('EXISTS', KEYS[3]) == 1 then return 0 end
        redis.call('DEL', KEYS[1], KEYS[2])
        redis.call('SET', KEYS[3], ARGV[1], 'PX', ARGV[2], 'NX')
        return 1
        """)

    /// KEYS: record, reason. ARGV: key, version, fence, time of use, milliseconds to keep the record, the number of the
    /// following arguments that replace an older version, then fields and values of the record; those beyond that number
    /// are only inserted with it.
    /// - Returns: 1 if an older version was replaced, 2 if the record was inserted.
    ///
    /// Versions and fences are compared as text, because Lua's numbers are exact up to 2^53 only.
    static let record = ValkeyScript(
        """
        local function less(a, b) return #a < #b or (#a == #b and a < b) end
        if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
        local kind = redis.call('TYPE', KEYS[1]).ok
        if kind == 'none' then
          redis.call('HSET', KEYS[1], unpack(ARGV, 7))
          redis.call('HSET', KEYS[1], 'u', ARGV[4])
          if ARGV[3] ~= '0' then redis.call('HSET', KEYS[1], 'f', ARGV[3]) end
          redis.call('PEXPIRE', KEYS[1], ARGV[5])
          redis.call('HEXISTS', KEYS[1], 'v')
          return 2
        end
        if kind ~= 'hash' then return 0 end
        local kept = redis.call('HMGET', KEYS[1], 'k', 'v', 'f', 'u')
        if kept[1] ~= ARGV[1] or not less(kept[2] or '0', ARGV[2]) then return 0 end
        redis.call('HSET', KEYS[1], unpack(ARGV, 7, 6 + ARGV[6]))
        if less(kept[3] or '0', ARGV[3]) then redis.call('HSET', KEYS[1], 'f', ARGV[3]) end
        if (tonumber(kept[4]) or 0) < tonumber(ARGV[4]) then redis.call('HSET', KEYS[1], 'u', ARGV[4]) end
        if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[5]) then redis.call('PEXPIRE', KEYS[1], ARGV[5]) end
        redis.call('HEXISTS', KEYS[1], 'v')
        return 1
        """)

    /// KEYS: record, lease. ARGV: fence, remaining milliseconds.
    ///
    /// Without the fence, the holder could not save the tokens that it has received, and another gateway could acquire
    /// the lease and spend the same refresh token.
    static let lease = ValkeyScript(
        """
        local function less(a, b) return #a < #b or (#a == #b and a < b) end
        if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then return 0 end
        local fence = redis.call('HGET', KEYS[1], 'f') or '0'
        if less(ARGV[1], fence) or (fence == ARGV[1] and redis.call('EXISTS', KEYS[2]) == 1) then return 0 end
        redis.call('HSET', KEYS[1], 'f', ARGV[1])
        redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
        redis.call('HEXISTS', KEYS[1], 'v')
        return 1
        """)

    /// KEYS: an index. ARGV: id, milliseconds until the server has deleted the session's record.
    static let index = ValkeyScript(
        """
        if redis.call('ZSCORE', KEYS[1], ARGV[1]) then return 0 end
        local time = redis.call('TIME')
        local ends = time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[2]
        redis.call('ZADD', KEYS[1], string.format('%.0f', ends), ARGV[1])
        if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
        return 1
        """)

    /// KEYS: a cutoff. ARGV: microseconds, the id of the kept session or `-`, milliseconds or `-`, milliseconds to keep it,
    /// the birth of the kept session or empty.
    ///
    /// The value is that of ``SessionScripts/cutoff``. Its times only grow. Of two cutoffs the later one is stored, and it
    /// does not keep a session that the earlier one has ended, in whatever order they are set.
    ///
    /// It has one key, unlike ``SessionScripts/cutoff``, and is sent to the owner of the slot only: never to a server that
    /// is receiving the slot.
    static let cutoff = ValkeyScript(
        """
        local value = redis.call('GET', KEYS[1]) or ''
        local at, id, before, birth = string.match(value, '^(%d+) ([%x-]+) ([%d-]+) ?(%d*)')
        local request = string.match(value, ' r%d+:[%x-]+')
        local changed = 0
        local last = tonumber(at) or -1
        local time = tonumber(ARGV[1])
        local function has_ended(earlier, kept, other, born)
          return earlier > 0 and other ~= '-' and other ~= kept and (tonumber(born) or earlier + 1) <= earlier
        end
        if last < time then
          local is_ended = has_ended(last, id, ARGV[2], ARGV[5])
          at, id, birth, changed = ARGV[1], ARGV[2], ARGV[5], 1
          if is_ended then id = '-' end
        elseif last > time and has_ended(time, ARGV[2], id, birth) then
          id, changed = '-', 1
        end
        before = before or '-'
        if ARGV[3] ~= '-' and (before == '-' or tonumber(before) < tonumber(ARGV[3])) then
          before, changed = ARGV[3], 1
        end
        if changed == 0 then return 0 end
        local keep = math.max(tonumber(ARGV[4]), redis.call('PTTL', KEYS[1]))
        value = at .. ' ' .. id .. ' ' .. before
        if id ~= '-' and birth ~= '' then value = value .. ' ' .. birth end
        if request and tonumber(string.match(request, '%d+')) > tonumber(at) then value = value .. request end
        redis.call('SET', KEYS[1], value, 'PX', string.format('%.0f', keep))
        redis.call('EXISTS', KEYS[1])
        return 1
        """)

    /// KEYS: a cutoff. ARGV: microseconds, the id of the kept session or `-`, milliseconds to keep it.
    ///
    /// Sets a cutoff that may never have been set, at a time that is estimated. It changes nothing if a cutoff is later,
    /// and is replaced by one: that one may keep a session that this one would end.
    static let cutoffRequest = ValkeyScript(
        """
        local value = redis.call('GET', KEYS[1]) or ''
        local cutoff = string.match(value, '^%d+ [%x-]+ [%d-]+ %d+') or string.match(value, '^%d+ [%x-]+ [%d-]+')
        cutoff = cutoff or '0 - -'
        local last = math.max(tonumber(string.match(cutoff, '^%d+')), tonumber(string.match(value, ' r(%d+):')) or 0)
        if last >= tonumber(ARGV[1]) then return 0 end
        local keep = math.max(tonumber(ARGV[3]), redis.call('PTTL', KEYS[1]))
        value = cutoff .. ' r' .. ARGV[1] .. ':' .. ARGV[2]
        redis.call('SET', KEYS[1], value, 'PX', string.format('%.0f', keep))
        redis.call('EXISTS', KEYS[1])
        return 1
        """)
}
