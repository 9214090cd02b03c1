/// State of an entry of a ``PooledConnectionTable``.
enum PooledConnectionState: UInt8 {
    case free
    /// An attempt is in progress.
    case connecting
    /// Established.
    case open
    /// Established, used for no further stream, closed with its last one.
    case retiring
}

/// A connection or attempt in a ``PooledConnectionTable``. Not generic, so that it is copied without reference counting.
struct PooledEntry {
    var generation: UInt32 = 0
    var state = PooledConnectionState.free
    var isListed = false
    /// Number of targets that the attempt has tried.
    var tries: UInt8 = 0
    var slot = -1
    /// Number of leases.
    var used = 0
    /// Maximum number of leases.
    var capacity = 0
    /// Neighbours in the list of available connections; `next` also in the list of free entries. `previous` is not valid
    /// for the head of a list.
    var previous = -1
    var next = -1
    /// When it became idle: a serial number.
    var idleOrder: UInt64 = 0

    /// Begins a lease. One that is full is no longer in the list; the caller links its neighbours.
    @inline(__always)
    mutating func use() -> (wasIdle: Bool, isFull: Bool, next: Int) {
        let wasIdle = used == 0
        used &+= 1
        let isFull = used >= capacity
        if isFull { isListed = false }
        return (wasIdle, isFull, next)
    }

    /// Ends a lease. One that has room and was not in the list is the new head of the list; the caller links the former
    /// one.
    @inline(__always)
    mutating func endUse(before head: Int, order: UInt64) -> (hadLease: Bool, isIdle: Bool, isNewlyListed: Bool) {
        guard used > 0 else { return (false, false, false) }
        used &-= 1
        idleOrder = order
        let isNewlyListed = !isListed && state == .open && used < capacity
        if isNewlyListed {
            isListed = true
            next = head
        }
        return (true, used == 0, isNewlyListed)
    }
}

/// A target in a ``PooledConnectionTable``.
struct PooledTarget {
    /// The connection that was used last, first; those with room only.
    var head = -1
    /// Number of connections and attempts.
    var connections = 0
    var connecting = 0
    /// Number of waiters for which the target was selected.
    var waiting = 0
    var isVanished = false
}
