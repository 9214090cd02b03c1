/// The time for which a client may let the gateway wait: it runs down while the gateway waits for the client, and bytes
/// that the client sends or receives give time back.
///
/// Starts with ``Limit/time`` and never exceeds it, so a client may pause that long at any point. One byte gives back
/// 1 / minimum rate seconds. A client that moves less than the minimum rate on average therefore uses it up, however it
/// distributes its bytes; a faster one never does. Time for which the gateway or an upstream is responsible does not
/// count, because the credit is stopped then.
///
/// All times are nanoseconds of one monotonic clock. A value without timers: the caller compares the end with the time.
public struct RateCredit: Sendable, Equatable {
    /// How much time a client has, and how it earns it.
    public struct Limit: Sendable, Equatable {
        /// The longest pause of a client, in nanoseconds.
        public let time: UInt64
        /// Nanoseconds that one byte gives back.
        public let perByte: UInt64

        /// Creates a limit.
        /// - Parameters:
        ///   - time: The longest pause in nanoseconds.
        ///   - minimumRate: Bytes per second; 0 or less gives all of the time back for any byte.
        public init(time: UInt64, minimumRate: Int) {
            self.init(time: time, perByte: Self.nanosecondsPerByte(minimumRate: minimumRate))
        }

        /// Creates a limit from nanoseconds per byte, computed in advance with ``nanosecondsPerByte(minimumRate:)``.
        public init(time: UInt64, perByte: UInt64) {
            self.time = time
            self.perByte = perByte
        }

        /// The nanoseconds that a byte gives back at a minimum rate in bytes per second.
        public static func nanosecondsPerByte(minimumRate: Int) -> UInt64 {
            minimumRate > 0 ? max(1, 1_000_000_000 / UInt64(minimumRate)) : .max
        }

        /// The time that a number of bytes gives back, at most ``time``.
        func gain(_ bytes: Int) -> UInt64 {
            guard bytes > 0 else { return 0 }
            let (gain, isOverflow) = UInt64(bytes).multipliedReportingOverflow(by: perByte)
            return isOverflow ? time : min(gain, time)
        }
    }

    private var limit: Limit
    /// While it runs: when it ends. Otherwise: the time that is left.
    private var value: UInt64
    /// Whether the gateway waits for the client.
    public private(set) var isRunning = false

    /// Creates a full credit that does not run.
    public init(_ limit: Limit) {
        self.limit = limit
        value = limit.time
    }

    /// The gateway waits for the client from now on, or does so already.
    /// - Returns: When the credit is used up.
    public mutating func start(now: UInt64) -> UInt64 {
        if !isRunning {
            isRunning = true
            value = now.addingClamped(value)
        }
        return value
    }

    /// The gateway does not wait for the client any more.
    public mutating func stop(now: UInt64) {
        guard isRunning else { return }
        isRunning = false
        value = value > now ? value - now : 0
    }

    /// The client has sent or received bytes. If the credit was used up before, they have to make up for the time since
    /// then too: otherwise any byte between the end and the next check of deadlines would begin it anew.
    /// - Returns: When the credit is used up if it runs; otherwise the time that is left.
    @discardableResult
    public mutating func moved(_ bytes: Int, now: UInt64) -> UInt64 {
        let gain = limit.gain(bytes)
        if isRunning {
            value = min(value.addingClamped(gain), now.addingClamped(limit.time))
        } else {
            value = min(value.addingClamped(gain), limit.time)
        }
        return value
    }

    /// Gives all of the time back, for something that the client is not responsible for.
    public mutating func refill(now: UInt64) {
        value = isRunning ? now.addingClamped(limit.time) : limit.time
    }

    func isUsedUp(now: UInt64) -> Bool { isRunning ? value <= now : value == 0 }
}
