/// An event that can change a ``TargetWord``.
enum TargetEvent: Sendable, Equatable {
    /// Active checks found the target down.
    case checkFailed
    /// Active checks found the target up.
    case checkPassed
    /// The weight became 0.
    case drained
    /// The weight is more than 0 again.
    case undrained
    /// A connection attempt that began at `startedAt` failed.
    case connectFailed(startedAt: UInt64, times: EjectionTimes, random: UInt64)
    /// A connection was established.
    case connected
    /// A request that began at `startedAt` failed.
    case requestFailed(startedAt: UInt64, times: EjectionTimes, random: UInt64)
    /// A request that began at `startedAt` got a response head that is not a failure.
    case requestSucceeded(startedAt: UInt64)
    /// The board decided to eject the target; ignored unless the circuit is closed.
    case ejected(times: EjectionTimes, random: UInt64)
    /// A request begins to probe the target and has `time` nanoseconds, at most 1 hour; ignored unless
    /// ``TargetWord/canProbe(now:)``.
    case probeStarted(time: UInt64)
    /// The probe was not sent to the target; the next request may probe it.
    case probeAbandoned
    /// Ten seconds with successful requests and without a failure.
    case cleanPeriod
    /// Called at least once a day, so that times that have passed do not wrap around.
    case aged
}

struct EjectionTimes: Sendable, Equatable {
    /// Milliseconds of the first ejection, 1...3,600,000.
    let first: UInt32
    /// Maximum milliseconds of an ejection, `first`...3,600,000.
    let longest: UInt32

    /// Creates durations, limited to 1 hour.
    init(first: Duration, longest: Duration) {
        self.first = UInt32(min(max(first.wholeNanoseconds / 1_000_000, 1), Self.limit))
        self.longest = max(self.first, UInt32(min(longest.wholeNanoseconds / 1_000_000, Self.limit)))
    }

    /// The default durations, 10 s to 5 minutes.
    static let standard = EjectionTimes(first: .seconds(10), longest: .seconds(300))

    /// The back-off after failed connection attempts, 1 s to 30 s.
    static let backOff = EjectionTimes(first: .seconds(1), longest: .seconds(30))

    private static let limit: UInt64 = 3_600_000

    /// Milliseconds after a number of doublings.
    func full(doublings: Int) -> UInt32 {
        let shift = UInt32(min(max(doublings, 0), 31))
        return first > longest >> shift ? longest : first << shift
    }

    /// Milliseconds after a number of doublings, less up to 25 %.
    func jittered(doublings: Int, random: UInt64) -> UInt32 {
        let full = full(doublings: doublings)
        return full - UInt32((UInt64(full / 4) * (random >> 32)) >> 32)
    }
}

extension TargetWord {
    /// The word after an event.
    /// - Parameter now: The time of the event, in nanoseconds of a monotonic clock.
    func after(_ event: TargetEvent, now: UInt64) -> TargetWord {
        var fields = Fields(self)
        let now = MonotonicMilliseconds(now)
        switch event {
        case .checkFailed: fields.flags |= Self.downBit
        case .checkPassed:
            fields.flags &= ~Self.downBit
            if fields.circuit == .backOff { fields.close() }
        case .drained: fields.flags |= Self.drainingBit
        case .undrained: fields.flags &= ~Self.drainingBit
        case .connected:
            fields.connectFailures = 0
            if fields.circuit == .backOff { fields.close() }
        case .connectFailed(let startedAt, let times, let random):
            fields.connectFailed(isNew: isLater(startedAt), times, random, now)
        case .requestFailed(let startedAt, let times, let random):
            guard isProbing, isLater(startedAt) else { return self }
            if circuit == .ejected { fields.eject(times, random, now) } else { fields.backOff(random, now) }
        case .requestSucceeded(let startedAt):
            guard isProbing, isLater(startedAt) else { return self }
            fields.close()
        case .ejected(let times, let random):
            guard circuit == .closed else { return self }
            fields.eject(times, random, now)
        case .probeStarted(let time):
            guard rawValue & (Self.downBit | Self.drainingBit) == 0, circuit != .closed, hasEnded(now) else {
                return self
            }
            fields.flags |= Self.probingBit
            fields.setPeriod(UInt32(min(time / 1_000_000, 3_600_000)), now, roundsUp: true)
        case .probeAbandoned:
            guard isProbing else { return self }
            fields.flags &= ~Self.probingBit
            fields.until = now
            fields.units = 0
        case .cleanPeriod:
            if circuit == .closed { fields.ejections = max(fields.ejections - 1, 0) }
        case .aged:
            guard circuit != .closed, until.elapsed(until: now) > 7_200_000 else { return self }
            fields.until = MonotonicMilliseconds(rawValue: now.rawValue &- 7_200_000)
        }
        return fields.word
    }

    private func hasEnded(_ now: MonotonicMilliseconds) -> Bool {
        until.elapsed(until: now) >= 0
    }

    /// Whether an attempt began in the present state of the circuit and not before.
    private func isLater(_ startedAt: UInt64) -> Bool {
        since.elapsed(until: MonotonicMilliseconds(startedAt)) >= 0
    }
}

/// The fields of a word, unpacked.
private struct Fields {
    /// Down, draining and probing at their places.
    var flags: UInt64
    var circuit: TargetWord.Circuit
    var connectFailures: Int
    var ejections: Int
    var units: UInt32
    var until: MonotonicMilliseconds

    init(_ word: TargetWord) {
        flags = word.rawValue & 0b111
        circuit = word.circuit
        connectFailures = word.connectFailures
        ejections = word.ejections
        units = UInt32(word.rawValue >> 15 & 0x1_ffff)
        until = word.until
    }

    var word: TargetWord {
        TargetWord(
            rawValue: flags | UInt64(circuit.rawValue) << 3 | UInt64(min(connectFailures, 31)) << 5
                | UInt64(min(ejections, 31)) << 10 | UInt64(min(units, 0x1_ffff)) << 15 | UInt64(until.rawValue) << 32)
    }

    mutating func close() {
        flags &= ~TargetWord.probingBit
        circuit = .closed
        connectFailures = 0
        units = 0
        until = MonotonicMilliseconds(rawValue: 0)
    }

    /// - Parameter isNew: Whether the attempt began in the present state of the circuit.
    mutating func connectFailed(
        isNew: Bool, _ times: EjectionTimes, _ random: UInt64, _ now: MonotonicMilliseconds
    ) {
        switch circuit {
        case .closed: backOff(random, now)
        case .backOff where isNew: backOff(random, now)
        case .ejected where isNew && flags & TargetWord.probingBit != 0: eject(times, random, now)
        case .backOff, .ejected: break
        }
    }

    mutating func backOff(_ random: UInt64, _ now: MonotonicMilliseconds) {
        circuit = .backOff
        connectFailures = begin(.backOff, doublings: connectFailures, random, now)
    }

    mutating func eject(_ times: EjectionTimes, _ random: UInt64, _ now: MonotonicMilliseconds) {
        circuit = .ejected
        ejections = begin(times, doublings: ejections, random, now)
    }

    /// - Returns: The doublings of the next time; more than needed for the longest would delay the return to short times.
    private mutating func begin(
        _ times: EjectionTimes, doublings: Int, _ random: UInt64, _ now: MonotonicMilliseconds
    ) -> Int {
        flags &= ~TargetWord.probingBit
        setPeriod(times.jittered(doublings: doublings, random: random), now, roundsUp: false)
        return times.full(doublings: doublings) < times.longest ? doublings + 1 : doublings
    }

    /// Begins a back-off, ejection or probe of this number of milliseconds.
    /// - Parameter roundsUp: For a probe; see ``TargetWord/since``.
    mutating func setPeriod(_ time: UInt32, _ now: MonotonicMilliseconds, roundsUp: Bool) {
        until = MonotonicMilliseconds(rawValue: now.rawValue &+ time)
        units = (time + (roundsUp ? TargetWord.unit - 1 : 0)) / TargetWord.unit
    }
}
