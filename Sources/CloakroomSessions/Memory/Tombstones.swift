import CloakroomCore

/// Why sessions ended that somebody may still hold a ticket of. Bounded in number and in age: what has made way is
/// `no_session` from then on.
struct Tombstones {
    /// How long a ticket is told why its session ended.
    static let lifetime = Duration.seconds(300)

    private struct Tombstone {
        var endedAt: Timestamp
        var reason: SessionEndReason
    }

    private let capacity: Int
    private var stones: [UInt64: Tombstone] = [:]
    /// The names in the order in which they came, as a ring once it is full.
    private var order: [UInt64] = []
    private var oldest = 0

    init(capacity: Int) {
        self.capacity = max(1, capacity)
    }

    var count: Int { stones.count }

    mutating func add(_ id: UInt64, reason: SessionEndReason, now: Timestamp) {
        if order.count < capacity {
            order.append(id)
        } else {
            stones[order[oldest]] = nil
            order[oldest] = id
            oldest = (oldest + 1) % capacity
        }
        stones[id] = Tombstone(endedAt: now, reason: reason)
    }

    /// Whether it is remembered that a session ended.
    func contains(_ id: UInt64, now: Timestamp) -> Bool {
        stones[id].map { now < $0.endedAt + Self.lifetime } ?? false
    }

    /// What the ticket of a session that is not there is told.
    func reason(for id: UInt64, now: Timestamp) -> UnauthorizedReason {
        guard let stone = stones[id], now < stone.endedAt + Self.lifetime else { return .noSession }
        return stone.reason.unauthorizedReason
    }
}
