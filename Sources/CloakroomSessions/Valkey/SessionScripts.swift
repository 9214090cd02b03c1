/// The atomic operations on a session. `KEYS[1]` is its record, a hash with the fields of ``RecordEncoding``.
///
/// Every script that changes a record ends by reading from it. The server reports one change after each read to a
/// connection and then stops tracking the key. A change by the same connection (`NOLOOP`) is not reported but still
/// ends the tracking. Without the read at the end, a session that was touched here and then ended elsewhere would stay
/// in the cache.
///
/// A server whose memory is full rejects commands that need memory, but not in a script that has already written
/// something. So the scripts that keep existing sessions alive, or end them, begin with a write that a full server
/// permits, even if it changes nothing. ``insert`` does not: a full server rejects new sessions. Flags of scripts would
/// state the same, but not to Redis 6.
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

    /// KEYS: record, lease. ARGV: fence or empty, version to replace, key, time of use, milliseconds to keep the
    /// record, then fields and values.
    /// - Returns: The result.
    static let replace = ValkeyScript(
        """
        if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then return 'gone' end
        local kept = redis.call('HMGET', KEYS[1], 'f', 'v', 'u', 'k')
        if kept[4] ~= ARGV[3] then return 'gone' end
        if ARGV[1] == '' then
          if redis.call('EXISTS', KEYS[2]) == 1 then return 'fenced' end
        elseif (kept[1] or '0') ~= ARGV[1] then return 'fenced' end
        if kept[2] ~= ARGV[2] then return 'changed' end
        local keep = math.max(redis.call('PTTL', KEYS[1]), ARGV[5])
        redis.call('PEXPIRE', KEYS[1], string.format('%.0f', keep))
        redis.call('HSET', KEYS[1], unpack(ARGV, 6))
        if (tonumber(kept[3]) or 0) < tonumber(ARGV[4]) then redis.call('HSET', KEYS[1], 'u', ARGV[4]) end
        redis.call('HEXISTS', KEYS[1], 'v')
        return 'done'
        """)

    /// KEYS: record, lease, reason. ARGV: reason, milliseconds to keep it, version and fence or empty twice.
    /// - Returns: The record's fields and values; empty if there was none.
    ///
    /// The record is deleted before the reason is stored, so that sessions can be ended on a server that is full. Without
    /// a record the reason is stored too, unless the server is full: a failover may have lost the record, and another
    /// gateway may write it again. A server that accepts no writes for another reason fails.
    static let remove = ValkeyScript(
        """
        local kind = redis.call('TYPE', KEYS[1]).ok
        if kind == 'none' then
          if ARGV[3] == '' then
            local stored = redis.pcall('SET', KEYS[3], ARGV[1], 'PX', ARGV[2], 'NX')
            if type(stored) == 'table' and stored.err and not string.find(stored.err, 'OOM ') then return stored end
          end
          return false
        end
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

    /// ARGV: time of use, milliseconds to keep the record, milliseconds between two uses that are recorded.
    /// - Returns: Empty if there is no record; 0 if nothing was written.
    ///
    /// Nothing is written, and so nothing replicated or reported, if a use is recorded already that is later, or earlier
    /// by less than the given time: several replicas may record a use before they know of those of the others. Unless the
    /// server might delete the record before it has expired for a gateway and its end was reported, 300 s after that.
    static let touch = ValkeyScript(
        """
        if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then return false end
        local passed = ARGV[1] - (tonumber(redis.call('HGET', KEYS[1], 'u')) or 0)
        local left = redis.call('PTTL', KEYS[1])
        if passed < tonumber(ARGV[3]) and left + math.max(passed, 0) >= ARGV[2] - 300000 then return 0 end
        redis.call('PEXPIRE', KEYS[1], string.format('%.0f', math.max(left, ARGV[2])))
        if passed > 0 then redis.call('HSET', KEYS[1], 'u', ARGV[1]) end
        redis.call('HEXISTS', KEYS[1], 'v')
        return 1
        """)

    /// KEYS: record, lease. ARGV: milliseconds.
    /// - Returns: The fence; 0 if the lease is held; empty if there is no record.
    ///
    /// The lease expires by the server's clock, which all replicas share.
    static let lease = ValkeyScript(
        """
        if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then return false end
        if redis.call('EXISTS', KEYS[2]) == 1 then return '0' end
        redis.call('DEL', KEYS[2])
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

    /// KEYS: the index of an account or of a session at a provider: ids of its sessions, ordered by when the server will
    /// have deleted them; its cutoff. ARGV: an id, milliseconds until then, the microseconds of its ``RecordBirth`` or
    /// empty for a new one, for a new one the limit of ids.
    /// - Returns: The microseconds of its birth: later than the cutoff if it is a new one. Then 1 if the index has more ids
    ///   than the limit, as ``surplus`` finds.
    ///
    /// Times are by the server's clock, like the expiry of records. Expired ids are removed only here: an id without a
    /// record may be one whose record is about to be written. The member `born` is no id: its score is the latest birth, so that a cutoff is not before it even if the clock went back. As a number of
    /// microseconds it is never among the expired.
    static let index = ValkeyScript(
        """
        local time = redis.call('TIME')
        local now = time[1] * 1000 + math.floor(time[2] / 1000)
        redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))
        local ends = now + ARGV[2]
        if (tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1])) or 0) < ends then
          redis.call('ZADD', KEYS[1], string.format('%.0f', ends), ARGV[1])
        end
        local born = tonumber(ARGV[3])
        if not born then
          local value = redis.call('GET', KEYS[2]) or ''
          local cutoff = tonumber(string.match(value, '^%d+')) or 0
          local requested = tonumber(string.match(value, ' r(%d+):')) or 0
          born = math.max(time[1] * 1000000 + time[2], cutoff + 1, requested + 1)
        end
        if (tonumber(redis.call('ZSCORE', KEYS[1], 'born')) or 0) < born then
          redis.call('ZADD', KEYS[1], string.format('%.0f', born), 'born')
        end
        if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
        local last = ARGV[4] ~= '' and redis.call('ZRANGE', KEYS[1], ARGV[4], ARGV[4])[1] or ''
        return {string.format('%.0f', born), #last == 16 and 1 or 0}
        """)

    /// KEYS: an index. ARGV: the limit; where the sample begins: 0 to 999,999 millionths of the distance of its ids.
    /// - Returns: Nothing if the index has no more ids than the limit. Otherwise their number, then at most 32 ids, each
    ///   once: the 16 that end first, and 16 that are evenly spread over the others.
    ///
    /// Members that are no ids have the highest scores.
    static let surplus = ValkeyScript(
        """
        local function at(rank)
          local member = redis.call('ZRANGE', KEYS[1], rank, rank)[1]
          return member and #member == 16 and member
        end
        local limit = tonumber(ARGV[1])
        if not at(limit) then return {} end
        local last, beyond = 0, 1
        while at(limit + beyond) do last, beyond = beyond, 2 * beyond end
        while beyond - last > 1 do
          local middle = math.floor((last + beyond) / 2)
          if at(limit + middle) then last = middle else beyond = middle end
        end
        local total = limit + last + 1
        local found = {total}
        for rank = 0, math.min(total, 16) - 1 do found[rank + 2] = at(rank) end
        local others = total - 16
        local count = math.min(others, 16)
        for number = 0, count - 1 do
          found[number + 18] = at(16 + math.floor((number + ARGV[2] / 1000000) * others / count))
        end
        return found
        """)

    /// KEYS: an index. ARGV: the id of a session that was created just now, then ids without a record.
    ///
    /// Only ids are removed whose session would end at least ten minutes before the new one: any other may be one whose
    /// record is about to be written, or is written again after a failover. A younger session can end that much earlier
    /// only if its provider ends it; it would then not be listed, and a cutoff ends it nevertheless.
    static let forget = ValkeyScript(
        """
        local latest = (tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1])) or 0) - 600000
        local removed = 0
        for number = 2, #ARGV do
          local ends = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[number]))
          if ends and ends < latest then removed = removed + redis.call('ZREM', KEYS[1], ARGV[number]) end
        end
        return removed
        """)

    /// KEYS: a cutoff, its index. ARGV: the id of the session that is kept or `-`, the milliseconds before which sessions
    /// were created or empty for all sessions so far, milliseconds to keep it, the birth of the kept session.
    /// - Returns: The cutoff: microseconds, id or `-`, milliseconds or `-`, the birth of the kept session if it is known,
    ///   and `r` with microseconds, a colon and an id or `-` for a cutoff of ``ReassertionScripts/cutoffRequest`` that is
    ///   later.
    ///
    /// A session that the cutoff so far has ended is not kept. Never earlier than the cutoff that it replaces, nor deleted
    /// earlier than that or than the index. The birth is needed if an earlier cutoff is set again after a failover.
    ///
    /// While a slot is being moved, a server executes a script with several keys only if it has all of them. So a cutoff
    /// is never created at the receiving server, where no gateway has read it yet: those that know of its absence from
    /// the other server would not be notified.
    static let cutoff = ValkeyScript(
        """
        local value = redis.call('GET', KEYS[1]) or ''
        local at, id, before, birth = string.match(value, '^(%d+) ([%x-]+) ([%d-]+) ?(%d*)')
        local requested, other = string.match(value, ' r(%d+):([%x-]+)')
        at = tonumber(at) or 0
        requested = tonumber(requested) or 0
        id = id or '-'
        before = before or '-'
        if ARGV[2] == '' then
          local time = redis.call('TIME')
          local born = tonumber(redis.call('ZSCORE', KEYS[2], 'born')) or 0
          local function has_ended(cutoff, kept)
            return cutoff > 0 and kept ~= ARGV[1] and tonumber(ARGV[4]) <= cutoff
          end
          local is_ended = has_ended(at, id) or requested > at and has_ended(requested, other)
          if id ~= ARGV[1] then birth = ARGV[4] ~= '0' and ARGV[4] or '' end
          id = is_ended and '-' or ARGV[1]
          at = math.max(time[1] * 1000000 + time[2], at + 1, born, requested)
        elseif before == '-' or tonumber(before) < tonumber(ARGV[2]) then
          before = ARGV[2]
        end
        local keep = math.max(tonumber(ARGV[3]), redis.call('PTTL', KEYS[1]), redis.call('PTTL', KEYS[2]))
        value = string.format('%.0f', at) .. ' ' .. id .. ' ' .. before
        if id ~= '-' and birth and birth ~= '' then value = value .. ' ' .. birth end
        if requested > at then value = value .. string.format(' r%.0f:', requested) .. other end
        keep = string.format('%.0f', keep)
        redis.call('PEXPIRE', KEYS[1], keep)
        redis.call('SET', KEYS[1], value, 'PX', keep)
        return value
        """)

    /// KEYS: a mark. ARGV: its time, milliseconds to keep it, 1 if a full server has to accept it.
    static let mark = ValkeyScript(
        """
        local kept = redis.call('GET', KEYS[1])
        if kept and (tonumber(kept) or 0) >= tonumber(ARGV[1]) then return 0 end
        if ARGV[3] == '1' then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
        redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
        return 1
        """)
}
