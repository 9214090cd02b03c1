/// The connections and connection attempts of an ``UpstreamPoolStateMachine``, with a list of the available ones for
/// each target.
///
/// Lists are linked within one array, so that a connection is used, returned or removed in constant time and without an
/// allocation. A target has a slot, which it keeps as long as it is in the list of targets; a vanished one keeps it until
/// its last connection has ended and its last waiter has left.
struct PooledConnectionTable<Connection: PooledConnection> {
    typealias State = PooledConnectionState

    private var entries = ContiguousArray<PooledEntry>()
    /// The connection of each entry.
    private var connections = ContiguousArray<Connection?>()
    private var free = -1
    private var slots: ContiguousArray<PooledTarget>
    private var slotOfTarget: ContiguousArray<Int>
    private var idleSerial: UInt64 = 0
    private(set) var connecting = 0
    /// Number of established connections without a lease.
    private(set) var idle = 0
    private(set) var leased = 0
    /// Number of connections and attempts.
    private(set) var count = 0

    init(targets: Int) {
        slots = ContiguousArray(repeating: PooledTarget(), count: max(targets, 0))
        slotOfTarget = ContiguousArray(0..<max(targets, 0))
    }

    /// The slot of a target; -1 if there is no such target.
    func slot(of target: Int) -> Int {
        target >= 0 && target < slotOfTarget.count ? slotOfTarget[target] : -1
    }

    /// The entry of a connection or attempt in one of the given states; -1 if there is none.
    func index(of id: PooledConnectionID, in state: State, or other: State) -> Int {
        let index = Int(id.index)
        guard index < entries.count, entries[index].generation == id.generation else { return -1 }
        return entries[index].state == state || entries[index].state == other ? index : -1
    }

    func state(at index: Int) -> State { entries[index].state }
    func used(at index: Int) -> Int { entries[index].used }
    func tries(at index: Int) -> Int { Int(entries[index].tries) }
    func hasRoom(at index: Int) -> Bool {
        entries[index].state == .open && entries[index].used < entries[index].capacity
    }

    // MARK: - Attempts

    /// Adds an attempt that has no target yet.
    mutating func addAttempt() -> PooledConnectionID {
        let index = free >= 0 ? free : entries.count
        if free >= 0 {
            free = entries[index].next
        } else {
            entries.append(PooledEntry())
            connections.append(nil)
        }
        entries[index].next = -1
        entries[index].state = .connecting
        count += 1
        connecting += 1
        return PooledConnectionID(
            index: UInt32(truncatingIfNeeded: index), generation: entries[index].generation)
    }

    /// An attempt tries a target.
    mutating func assign(_ index: Int, to slot: Int) {
        unassign(index)
        entries[index].slot = slot
        if entries[index].tries < .max { entries[index].tries += 1 }
        guard slot >= 0 else { return }
        slots[slot].connections += 1
        slots[slot].connecting += 1
    }

    /// An attempt no longer tries its target.
    mutating func unassign(_ index: Int) {
        let slot = entries[index].slot
        guard slot >= 0 else { return }
        entries[index].slot = -1
        slots[slot].connections -= 1
        slots[slot].connecting -= 1
    }

    /// Whether the target of an attempt is in the list of targets.
    func isAssigned(_ index: Int) -> Bool {
        let slot = entries[index].slot
        return slot >= 0 && !slots[slot].isVanished
    }

    /// An attempt has succeeded.
    mutating func open(_ index: Int, _ connection: Connection, capacity: Int) {
        connections[index] = connection
        entries[index].state = .open
        entries[index].capacity = capacity
        connecting -= 1
        slots[entries[index].slot].connecting -= 1
        idle += 1
        stampIdle(index)
        list(index)
    }

    /// Removes an attempt or a connection, with all its leases.
    /// - Returns: The connection.
    @discardableResult
    mutating func remove(_ index: Int) -> Connection? {
        let entry = entries[index]
        switch entry.state {
        case .free: return nil
        case .connecting:
            unassign(index)
            connecting -= 1
        case .open, .retiring:
            unlist(index)
            if entry.used == 0 { idle -= 1 }
            leased -= entry.used
            slots[entry.slot].connections -= 1
        }
        let connection = connections[index]
        connections[index] = nil
        entries[index] = PooledEntry(generation: entry.generation &+ 1, next: free)
        free = index
        count -= 1
        return connection
    }

    // MARK: - Leases

    /// Leases the available connection of a target that was used last.
    @inline(__always)
    mutating func takeAvailable(in slot: Int) -> Connection? {
        guard slot >= 0 else { return nil }
        let index = slots[slot].head
        guard index >= 0 else { return nil }
        // The same as `use(_:)`, for the head of a list.
        let after = entries[index].use()
        leased &+= 1
        if after.wasIdle { idle &-= 1 }
        if after.isFull { slots[slot].head = after.next }
        return connections[index]
    }

    /// Leases an available connection of any usable target, in the order of a ring.
    mutating func takeAnyUsable(after slot: Int) -> Connection? {
        guard idle > 0 || leased > 0 else { return nil }
        var slot = max(slot, 0)
        for _ in 0..<slots.count {
            slot = slot + 1 < slots.count ? slot + 1 : 0
            let index = slots[slot].head
            if index >= 0, connections[index]?.isTargetUsable == true { return takeAvailable(in: slot) }
        }
        return nil
    }

    /// Begins a lease.
    mutating func use(_ index: Int) {
        if entries[index].used + 1 >= entries[index].capacity { unlist(index) }
        let after = entries[index].use()
        leased &+= 1
        if after.wasIdle { idle &-= 1 }
    }

    /// Ends a lease.
    /// - Returns: Whether the connection has none any more; `nil` if it had none before.
    @inline(__always)
    mutating func endUse(_ index: Int) -> Bool? {
        let slot = entries[index].slot
        let head = slots[slot].head
        idleSerial &+= 1
        let after = entries[index].endUse(before: head, order: idleSerial)
        guard after.hadLease else { return nil }
        leased &-= 1
        if after.isIdle { idle &+= 1 }
        if after.isNewlyListed {
            if head >= 0 { entries[head].previous = index }
            slots[slot].head = index
        }
        return after.isIdle
    }

    /// Changes the number of leases and their maximum, according to the connection.
    mutating func setRoom(at index: Int, leases: Int, further: Int) {
        let (before, after) = (entries[index].used, max(leases, 0))
        entries[index].used = after
        entries[index].capacity = after + max(further, 0)
        leased += after - before
        if before == 0, after > 0 { idle -= 1 }
        if before > 0, after == 0 {
            idle += 1
            stampIdle(index)
        }
        if hasRoom(at: index) { list(index) } else { unlist(index) }
    }

    /// Uses a connection for no further lease.
    mutating func retire(_ index: Int) {
        entries[index].state = .retiring
        unlist(index)
    }

    /// The connection that has been idle for the longest time; -1 if there is none. Visits all connections if one is
    /// idle.
    func oldestIdle() -> Int {
        guard idle > 0 else { return -1 }
        var oldest = -1
        for index in entries.indices where entries[index].state == .open && entries[index].used == 0 {
            if oldest < 0 || entries[index].idleOrder < entries[oldest].idleOrder { oldest = index }
        }
        return oldest
    }

    // MARK: - Targets

    /// Replaces the list of targets.
    /// - Parameter kept: For each new target its previous index, or -1.
    mutating func replaceTargets(_ kept: [Int]) {
        var next = ContiguousArray(repeating: -1, count: kept.count)
        for index in slots.indices { slots[index].isVanished = true }
        for (target, previous) in kept.enumerated() {
            let slot = slot(of: previous)
            guard slot >= 0, slots[slot].isVanished else { continue }
            slots[slot].isVanished = false
            next[target] = slot
        }
        var candidate = 0
        for target in next.indices where next[target] < 0 {
            while candidate < slots.count, !isFree(candidate) { candidate += 1 }
            if candidate == slots.count { slots.append(PooledTarget()) }
            slots[candidate] = PooledTarget()
            next[target] = candidate
            candidate += 1
        }
        slotOfTarget = next
    }

    /// Removes the idle connections, in no particular order.
    /// - Parameter ofVanishedTargets: Only those of targets that are no longer in the list; their other connections are
    ///   retired.
    mutating func takeIdle(ofVanishedTargets: Bool) -> [Connection] {
        var taken: [Connection] = []
        for index in entries.indices where entries[index].state == .open {
            guard !ofVanishedTargets || slots[entries[index].slot].isVanished else { continue }
            if entries[index].used == 0 {
                if let connection = remove(index) { taken.append(connection) }
            } else if ofVanishedTargets {
                retire(index)
            }
        }
        return taken
    }

    private func isFree(_ slot: Int) -> Bool {
        slots[slot].isVanished && slots[slot].connections == 0 && slots[slot].waiting == 0
    }

    // MARK: - Waiters of a target

    mutating func addWaiter(of slot: Int) {
        if slot >= 0 { slots[slot].waiting += 1 }
    }

    mutating func removeWaiter(of slot: Int) {
        if slot >= 0 { slots[slot].waiting -= 1 }
    }

    /// Whether the attempts to a target are expected to serve one waiter more than those for which it was selected.
    func isExpected(in slot: Int, streams: Int) -> Bool {
        slot >= 0 && slots[slot].waiting < slots[slot].connecting * streams
    }

    // MARK: - Lists

    private mutating func stampIdle(_ index: Int) {
        idleSerial &+= 1
        entries[index].idleOrder = idleSerial
    }

    private mutating func list(_ index: Int) {
        guard !entries[index].isListed, hasRoom(at: index) else { return }
        let slot = entries[index].slot
        let head = slots[slot].head
        entries[index].isListed = true
        entries[index].next = head
        if head >= 0 { entries[head].previous = index }
        slots[slot].head = index
    }

    private mutating func unlist(_ index: Int) {
        guard entries[index].isListed else { return }
        entries[index].isListed = false
        let slot = entries[index].slot
        let next = entries[index].next
        if slots[slot].head == index {
            slots[slot].head = next
        } else {
            let previous = entries[index].previous
            entries[previous].next = next
            if next >= 0 { entries[next].previous = previous }
        }
    }
}
