/// The credit of a client that is behind with reading a response.
///
/// Runs from the moment at which nothing more can be written until something can. What the client has accepted
/// meanwhile is measured when the credit seems to be used up, because reports of the system are too coarse for slow
/// clients: a socket becomes writable again only after a third of its send buffer is acknowledged, which takes a client
/// with 1 KB/s many minutes.
///
/// There are two measures of accepted bytes, both increasing: the coarse one, which costs nothing, counts what the
/// system has taken over; the exact one, which costs a system call, what the client has acknowledged. Only the same
/// measure is compared with itself. The first exact value is taken at most a second after the beginning, so that fast
/// clients cost no system call.
public struct DrainCredit: Sendable, Equatable {
    private var credit: RateCredit
    /// When the exact measure is taken first, in nanoseconds after the client fell behind.
    private let firstMeasure: UInt64
    /// The values when the client fell behind, and of the last exact measure.
    private var coarse = 0
    private var exact: Int?
    /// Bytes credited since the client fell behind.
    private var credited = 0

    /// Whether the client is behind.
    public var isBehind: Bool { credit.isRunning }

    /// Creates the credit of a client that is not behind.
    public init(_ limit: RateCredit.Limit) {
        credit = RateCredit(limit)
        firstMeasure = min(limit.time / 4, 1_000_000_000)
    }

    /// Nothing more can be written to the client.
    /// - Parameter coarse: Bytes accepted so far, by the coarse measure.
    /// - Returns: When ``expired(exact:now:)`` is to be called.
    public mutating func begin(coarse: @autoclosure () -> Int, now: UInt64) -> UInt64 {
        guard !isBehind else { return credit.start(now: now) }
        self.coarse = coarse()
        exact = nil
        credited = 0
        return min(credit.start(now: now), now &+ firstMeasure)
    }

    /// More can be written to the client.
    /// - Parameter coarse: Bytes accepted so far, by the coarse measure.
    public mutating func end(coarse: @autoclosure () -> Int, now: UInt64) {
        guard isBehind else { return }
        credit.moved(coarse() &- self.coarse &- credited, now: now)
        credit.stop(now: now)
    }

    /// The time returned last has come.
    /// - Parameter exact: Bytes accepted so far, by the exact measure.
    /// - Returns: When to call it again; `nil` if the client is too slow, or is not behind.
    public mutating func expired(exact: Int, now: UInt64) -> UInt64? {
        guard isBehind else { return nil }
        if let last = self.exact, exact > last {
            credit.moved(exact &- last, now: now)
            credited &+= exact &- last
        }
        self.exact = exact
        return credit.isUsedUp(now: now) ? nil : credit.start(now: now)
    }
}
