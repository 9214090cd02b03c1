/// The state of a target that decides whether requests are sent to it, packed into 64 bits so that one atomic load and
/// one mask test suffice.
///
/// Folder `Upstreams/`: balancing, health, ejection and retries of the targets of an upstream, without I/O, clocks or
/// randomness. Times are nanoseconds of one monotonic clock, random bits are arguments.
///
/// A target has three independent states: *down* by active checks, *draining* by configuration, and a *circuit*,
/// which is closed, in back-off after a failed connection attempt, or ejected after failed requests. A circuit that is
/// not closed is probed by one request after ``until``. ``after(_:now:)`` is the only rule that changes the word.
public struct TargetWord: RawRepresentable, Equatable, Sendable {
    /// Why the circuit is not closed.
    public enum Circuit: UInt8, Sendable {
        /// Requests are sent.
        case closed
        /// A connection attempt failed.
        case backOff
        /// Requests failed.
        case ejected
    }

    /// From the lowest bit: down, draining, probing, circuit (2), failed connection attempts (5), ejections (5), duration
    /// of the circuit's state in units of 32 ms (17), its end in milliseconds (32).
    public let rawValue: UInt64

    /// - Parameter rawValue: A value of another word; 0 is a usable target without history.
    public init(rawValue: UInt64) {
        self.rawValue = rawValue
    }

    /// A usable target without history.
    public static let usable = TargetWord(rawValue: 0)

    /// The bits that are 0 if and only if the target is usable.
    static let unusableMask: UInt64 = 0b1_1111
    static let circuitMask: UInt64 = 0b1_1000
    static let downBit: UInt64 = 0b1
    static let drainingBit: UInt64 = 0b10
    static let probingBit: UInt64 = 0b100

    /// Whether any request may be sent.
    public var isUsable: Bool { rawValue & Self.unusableMask == 0 }
    /// Whether active checks failed.
    public var isDown: Bool { rawValue & Self.downBit != 0 }
    /// Whether it gets no new requests because its weight is 0.
    public var isDraining: Bool { rawValue & Self.drainingBit != 0 }
    /// Whether a request probes whether the circuit can be closed; ``until`` is the end of the time that it has.
    public var isProbing: Bool { rawValue & Self.probingBit != 0 }
    /// Why the circuit is not closed.
    public var circuit: Circuit { Circuit(rawValue: UInt8(rawValue >> 3 & 0b11)) ?? .ejected }
    /// Consecutive failed connection attempts that count for the length of the back-off.
    public var connectFailures: Int { Int(rawValue >> 5 & 0b1_1111) }
    /// Ejections that count for the length of the next one.
    public var ejections: Int { Int(rawValue >> 10 & 0b1_1111) }
    /// End of the back-off, ejection or probe, in milliseconds; see ``MonotonicMilliseconds``.
    public var until: MonotonicMilliseconds { MonotonicMilliseconds(rawValue: UInt32(rawValue >> 32)) }

    /// Start of the back-off, ejection or probe, to within 32 ms, because its duration is stored in that unit. Rounded so that it
    /// is never after the start of a probe, whose result would be missed, and never before the start of a back-off or
    /// ejection, which attempts in progress would extend.
    var since: MonotonicMilliseconds {
        MonotonicMilliseconds(rawValue: until.rawValue &- UInt32(rawValue >> 15 & 0x1_ffff) &* Self.unit)
    }

    /// Whether one request may probe the target, by ``TargetEvent/probeStarted(time:)``.
    public func canProbe(now: UInt64) -> Bool {
        rawValue & (Self.downBit | Self.drainingBit) == 0 && rawValue & Self.circuitMask != 0
            && until.elapsed(until: MonotonicMilliseconds(now)) >= 0
    }

    /// Milliseconds in a unit of the circuit's duration; 17 bits of them are 69 minutes.
    static let unit: UInt32 = 32
}

/// A point in time of a monotonic clock in milliseconds, modulo 2³² (49.7 days). Differences are exact if they are less
/// than 24.8 days.
public struct MonotonicMilliseconds: RawRepresentable, Equatable, Sendable {
    /// Milliseconds modulo 2³².
    public var rawValue: UInt32

    /// Creates a point in time from its milliseconds.
    public init(rawValue: UInt32) {
        self.rawValue = rawValue
    }

    /// - Parameter nanoseconds: Nanoseconds of the clock.
    public init(_ nanoseconds: UInt64) {
        rawValue = UInt32(truncatingIfNeeded: nanoseconds / 1_000_000)
    }

    /// Milliseconds from this time until another one; negative if the other is earlier.
    public func elapsed(until later: MonotonicMilliseconds) -> Int32 {
        Int32(bitPattern: later.rawValue &- rawValue)
    }
}
