/// What is done to a session in one piece. `KEYS[1]` is its record, a hash with the fields of ``RecordEncoding``.
///
/// Every script that changes a record ends by reading from it. The server tells a connection of one change after each read
/// and then forgets that it was read; a change of our own (`NOLOOP`) is not told but forgotten all the same. Without the
/// read at the end, a session that was touched here and then ended elsewhere would live on in the local table.
enum SessionScripts {
    /// ARGV: milliseconds to keep it, then fields and values.
    static let insert = ValkeyScript(
        """
        if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
        redis.call('HSET', KEYS[1], unpack(ARGV, 2))
        redis.call('PEXPIRE', KEYS[1], ARGV[1])
        redis.call('HEXISTS', KEYS[1], 'v')
        return 1
        """)

    /// KEYS: record, lease. ARGV: fence or nothing, version to replace, key, time of use, then fields and values.
    /// - Returns: What became of it.
    static let replace = ValkeyScript(
        """
        if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then return 'gone' end
        local kept = redis.call('HMGET', KEYS[1], 'f', 'v', 'u', 'k')
        if kept[4] ~= ARGV[3] then return 'gone' end
        if ARGV[1] == '' then
          if redis.call('EXISTS', KEYS[2]) == 1 then return 'fenced' end
        elseif (kept[1] or '0') ~= ARGV[1] then return 'fenced' end
        if kept[2] ~= ARGV[2] then return 'changed' end
        redis.call('HSET', KEYS[1], unpack(ARGV, 5))
        if (tonumber(kept[3]) or 0) < tonumber(ARGV[4]) then redis.call('HSET', KEYS[1], 'u', ARGV[4]) end
        redis.call('HEXISTS', KEYS[1], 'v')
        return 'done'
        """)

    /// KEYS: record, lease, reason. ARGV: reason, milliseconds to keep it, version and fence or nothing twice.
    /// - Returns: The record's fields and values; nothing if there was none.
    ///
    /// Memory is given back before the reason takes some, so that sessions can be ended on a server that is full.
    static let remove = ValkeyScript(
        """
        local kind = redis.call('TYPE', KEYS[1]).ok
        if kind == 'none' then return false end
        local kept = {}
        if kind == 'hash' then kept = redis.call('HGETALL', KEYS[1]) end
        if ARGV[3] ~= '' then
          if kind ~= 'hash' then return 'changed' end
          local has = redis.call('HMGET', KEYS[1], 'v', 'f')
          if has[1] ~= ARGV[3] or (has[2] or '0') ~= ARGV[4] then return 'changed' end
        end
        redis.call('DEL', KEYS[1], KEYS[2])
        redis.call('SET', KEYS[3], ARGV[1], 'PX', ARGV[2])
        return kept
        """)

    /// ARGV: time of use, milliseconds to keep the record.
    static let touch = ValkeyScript(
        """
        if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then return 0 end
        if (tonumber(redis.call('HGET', KEYS[1], 'u')) or 0) < tonumber(ARGV[1]) then
          redis.call('HSET', KEYS[1], 'u', ARGV[1])
        end
        if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
        redis.call('HEXISTS', KEYS[1], 'v')
        return 1
        """)

    /// KEYS: record, lease. ARGV: milliseconds.
    /// - Returns: The fence; 0 if somebody has the lease; nothing if there is no record.
    ///
    /// The lease runs out by the server's clock, which all replicas have in common.
    static let lease = ValkeyScript(
        """
        if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then return false end
        if redis.call('EXISTS', KEYS[2]) == 1 then return '0' end
        local fence = redis.call('HINCRBY', KEYS[1], 'f', 1)
        redis.call('SET', KEYS[2], fence, 'PX', ARGV[1])
        return redis.call('HGET', KEYS[1], 'f')
        """)

    /// KEYS: lease. ARGV: fence.
    static let release = ValkeyScript(
        """
        if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
        return redis.call('DEL', KEYS[1])
        """)

    /// KEYS: the index of an account: names of its sessions, ordered by when the server will have forgotten them. ARGV: a
    /// name, milliseconds until then.
    ///
    /// By the server's clock, as the forgetting is. Names whose time is over are cleared away here, and nowhere else: a name
    /// without a record may be one whose record is about to be written.
    static let index = ValkeyScript(
        """
        local time = redis.call('TIME')
        local now = time[1] * 1000 + math.floor(time[2] / 1000)
        redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))
        local ends = now + ARGV[2]
        if (tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1])) or 0) < ends then
          redis.call('ZADD', KEYS[1], string.format('%.0f', ends), ARGV[1])
        end
        if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
        return 1
        """)

    /// KEYS: a state of the throttle. ARGV: old, new, milliseconds to keep it; nothing stands for none.
    static let throttle = ValkeyScript(
        """
        local kept = redis.call('GET', KEYS[1]) or ''
        if not string.match(kept, '^%d+ %-?%d+ %-?%d+$') then kept = '' end
        if kept ~= ARGV[1] then return 0 end
        if ARGV[2] == '' then redis.call('DEL', KEYS[1]) else redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) end
        return 1
        """)
}
