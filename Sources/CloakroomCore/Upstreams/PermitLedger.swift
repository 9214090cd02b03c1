import Synchronization

/// The part of the permits of an upstream that all event loops share. A permit is the right to have a connection, or to
/// have a request in the queue.
///
/// Half of the maximum is guaranteed to the loops in equal parts; the other half, with the remainder, is common.
public final class SharedPermits: Sendable {
    /// The maximum number of loops.
    static let maxLoops = 256

    /// The number of permits guaranteed to each loop.
    public let guaranteed: Int
    /// The number of event loops.
    public let loops: Int
    let common: Atomic<Int>
    let waiting = LoopSet()
    /// Loops that use common permits.
    let using = LoopSet()

    /// - Parameters:
    ///   - maximum: The number of permits.
    ///   - loops: The number of event loops, 1...256.
    public init(maximum: Int, loops: Int) {
        self.loops = min(max(loops, 1), Self.maxLoops)
        guaranteed = max(maximum, 0) / (2 * self.loops)
        common = Atomic(max(maximum, 0) - guaranteed * self.loops)
    }

    /// The common permits that are available.
    public var available: Int { common.load(ordering: .relaxed) }

    /// The loops that use more permits than guaranteed: those to notify that another loop is starved, so that they close
    /// idle connections. In ascending order.
    public var holders: [Int] { (0..<loops).filter { using.contains($0) } }

    /// The next loop to wake, if common permits are available, for a loop that was woken and has no pool any more.
    public func nextWaiting(after loop: Int) -> Int? {
        guard common.load(ordering: .sequentiallyConsistent) > 0 else { return nil }
        return waiting.removeNext(after: loop)
    }

    func takeCommon() -> Bool {
        var old = common.load(ordering: .sequentiallyConsistent)
        while old > 0 {
            let (exchanged, original) = common.compareExchange(
                expected: old, desired: old - 1, ordering: .sequentiallyConsistent)
            if exchanged { return true }
            old = original
        }
        return false
    }
}

/// The result of ``PermitLedger/takeOrAsk()``.
public enum PermitResult: Sendable, Equatable {
    /// The loop has one permit more.
    case taken
    /// There is none, and the loop began to wait: ``SharedPermits/holders`` have to be notified.
    case ask
    /// There is none, and the loop waits already.
    case asked
}

/// The permits of one event loop. A value of the loop; called only when connections are opened and closed, and when
/// requests enter and leave the queue.
///
/// A loop that finds no permit is registered as waiting before it tries once more, and a loop that gives one back reads
/// the registrations after it, both with sequential consistency: no permit is left while a loop waits.
public struct PermitLedger: Sendable {
    private let shared: SharedPermits
    private let loop: Int
    /// Permits in use of those guaranteed to the loop.
    private var own = 0
    /// Permits in use of the common ones.
    private var common = 0

    /// - Parameter loop: The number of the event loop, from 0 to `loops` - 1.
    public init(_ shared: SharedPermits, loop: Int) {
        self.shared = shared
        self.loop = min(max(loop, 0), SharedPermits.maxLoops - 1)
    }

    /// Permits in use.
    public var count: Int { own + common }

    /// Whether permits in use are among the common ones, so that other loops may be starved because of them.
    public var isBeyondGuarantee: Bool { common > 0 }

    /// Whether a further permit would be a common one.
    public var isGuaranteeUsed: Bool { own >= shared.guaranteed }

    /// Whether another loop waits for a permit.
    public var isAwaited: Bool { shared.waiting.containsOther(than: loop) }

    /// Takes a permit.
    /// - Parameter isWaiting: Whether the loop is to be woken after a permit became free, if there is none.
    /// - Returns: Whether there was one.
    public mutating func take(isWaiting: Bool = true) -> Bool {
        isWaiting ? takeOrAsk() == .taken : takeNow()
    }

    /// Takes a permit, or registers the loop as waiting.
    public mutating func takeOrAsk() -> PermitResult {
        if takeNow() { return .taken }
        let isNew = shared.waiting.insert(loop)
        // One may have become free before the registration.
        if takeNow() {
            shared.waiting.remove(loop)
            return .taken
        }
        return isNew ? .ask : .asked
    }

    private mutating func takeNow() -> Bool {
        if own < shared.guaranteed {
            own += 1
            return true
        }
        guard shared.takeCommon() else { return false }
        if common == 0 { shared.using.insert(loop) }
        common += 1
        return true
    }

    /// Gives a permit back, a common one first. Without a permit in use, nothing happens.
    /// - Returns: A waiting loop to wake, which is no longer registered; -1 if there is none.
    public mutating func giveBack() -> Int {
        guard common > 0 else {
            own = max(own - 1, 0)
            return -1
        }
        common -= 1
        if common == 0 { shared.using.remove(loop) }
        shared.common.wrappingAdd(1, ordering: .sequentiallyConsistent)
        return wakeNext()
    }

    /// The next loop to wake, if common permits are available: for a loop that was woken and needs no permit any more, or
    /// that took one and leaves further ones.
    /// - Returns: A waiting loop, which is no longer registered; -1 if there is none.
    func wakeNext() -> Int {
        shared.nextWaiting(after: loop) ?? -1
    }

    /// The loop has no waiter any more: removes its registration.
    /// - Returns: As ``wakeNext()``, because a permit may have become free for this loop.
    public func stopWaiting() -> Int {
        shared.waiting.remove(loop)
        return wakeNext()
    }
}
