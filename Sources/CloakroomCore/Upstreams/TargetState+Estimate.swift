import Synchronization

/// Constants of the estimate, which a reload can change.
struct EstimateRules: Equatable {
    /// Half-life of a measurement: 2 to the power of this, in milliseconds.
    var halfLifeShift: UInt64 = 12
    /// Minimum microseconds that a failure counts as.
    var penalty: UInt64 = 1_000_000

    init() {}

    /// - Parameter configuration: The half-life is limited to its range and rounded to a power of two of milliseconds, so
    ///   that no division is needed.
    init(_ configuration: BalanceConfiguration) {
        let milliseconds = min(max(configuration.halfLife.wholeNanoseconds / 1_000_000, 128), 60_000)
        // 181 / 128 is the square root of 2: rounds to the power of two that is nearer as a ratio.
        halfLifeShift = UInt64(63 - (milliseconds * 181 / 128).leadingZeroBitCount)
        penalty = TargetState.microseconds(configuration.failurePenalty.wholeNanoseconds)
    }

    init(packed: UInt64) {
        halfLifeShift = packed >> 32
        penalty = packed & 0xffff_ffff
    }

    var packed: UInt64 { halfLifeShift << 32 | penalty }

    /// A value after some time: half of it after a half-life, and between two half-lives to within 1 % by
    /// 2⁻ᶠ ≈ 1 - f · (0.6875 - 0.1875 · f). A straight line would make the half-life of frequent measurements 39 % longer.
    /// - Parameters:
    ///   - value: Less than 2³².
    ///   - age: Milliseconds, 0 or more.
    @inline(__always)
    func decayed(_ value: UInt64, age: UInt64) -> UInt64 {
        // f and the loss have 24 bits after the point.
        let part = (age & ((1 &<< halfLifeShift) &- 1)) &<< (24 &- halfLifeShift)
        let loss = (part &* (0xb0_0000 &- (part &* 3) &>> 4)) &>> 24
        return (value &- (value &* loss) &>> 24) >> (age &>> halfLifeShift)
    }
}

extension TargetState {
    /// Maximum estimate in microseconds, 17.9 minutes, so that costs cannot overflow.
    static let maxEstimate: UInt64 = 1 << 30

    /// 1 µs to ``maxEstimate``.
    static func microseconds(_ nanoseconds: UInt64) -> UInt64 {
        min(max(nanoseconds / 1_000, 1), maxEstimate)
    }

    /// The estimated time to a response head in nanoseconds at a time; `nil` if there was no measurement.
    public func estimatedLatency(now: UInt64) -> UInt64? {
        let packed = estimate.load(ordering: .relaxed)
        if packed == 0 { return nil }
        return decayed(packed, at: MonotonicMilliseconds(now)) * 1_000
    }

    /// Peak EWMA: a measurement above the estimate replaces it, a lower one lowers it by the weight of the time since the
    /// last measurement.
    @inline(__always)
    func observe(_ microseconds: UInt64, at now: MonotonicMilliseconds) {
        let old = estimate.load(ordering: .relaxed)
        let value = old & 0xffff_ffff
        guard microseconds < value else {
            return estimate.store(UInt64(now.rawValue) << 32 | microseconds, ordering: .relaxed)
        }
        let rules = EstimateRules(packed: rules.load(ordering: .relaxed))
        let age = Self.age(of: old, at: now)
        let excess = value &- microseconds
        let step = excess &- rules.decayed(excess, age: age)
        // A small step waits until more time has passed, so that rounding does not stop or slow the decay.
        guard step >= 8 || step > 0 && age >= 1 &<< (rules.halfLifeShift &- 3) else { return }
        estimate.store(UInt64(now.rawValue) << 32 | (value &- step), ordering: .relaxed)
    }

    /// The latency is unknown until the next measurement.
    func forgetEstimate() { estimate.store(0, ordering: .relaxed) }

    /// Raises the estimate to a value, if it is below at this time.
    func raise(to microseconds: UInt64, at now: MonotonicMilliseconds) {
        let old = estimate.load(ordering: .relaxed)
        if old != 0, decayed(old, at: now) >= microseconds { return }
        estimate.store(UInt64(now.rawValue) << 32 | microseconds, ordering: .relaxed)
    }

    /// The estimate of a packed value at a time, at least 1.
    @inline(__always)
    func decayed(_ packed: UInt64, at now: MonotonicMilliseconds) -> UInt64 {
        let rules = EstimateRules(packed: rules.load(ordering: .relaxed))
        return max(rules.decayed(packed & 0xffff_ffff, age: Self.age(of: packed, at: now)), 1)
    }

    /// The latency that a further request can expect, in microseconds: the estimate, or the time without a response head
    /// while one is due. Without a measurement 0 if nothing is in flight, otherwise more than any measured one.
    @inline(__always)
    func latency(load: UInt64, at now: MonotonicMilliseconds) -> UInt64 {
        let packed = estimate.load(ordering: .relaxed)
        var latency = packed == 0 ? (load >> 32 == 0 ? 0 : Self.maxEstimate * 2) : decayed(packed, at: now)
        if load & 0xffff_ffff != 0 {
            let last = MonotonicMilliseconds(rawValue: progress.load(ordering: .relaxed))
            let silence = UInt64(max(last.elapsed(until: now), 0)) &* 1_000
            latency = max(latency, min(silence, Self.maxEstimate))
        }
        return latency
    }

    private static func age(of packed: UInt64, at now: MonotonicMilliseconds) -> UInt64 {
        UInt64(max(MonotonicMilliseconds(rawValue: UInt32(packed >> 32)).elapsed(until: now), 0))
    }

    func setRules(_ rules: EstimateRules) {
        self.rules.store(rules.packed, ordering: .relaxed)
    }

    /// Called once a second: forgets an estimate that has decayed, before its time wraps around.
    func sweepEstimate(now: UInt64) {
        let old = estimate.load(ordering: .relaxed)
        guard old != 0, decayed(old, at: MonotonicMilliseconds(now)) <= 1 else { return }
        _ = estimate.compareExchange(expected: old, desired: 0, ordering: .relaxed)
    }

    // MARK: - Slow start

    /// Begins the slow start.
    func startWarming(at now: MonotonicMilliseconds) {
        // 0 means that there is none.
        warmSince.store(max(now.rawValue, 1), ordering: .relaxed)
    }

    /// Ends the slow start.
    func endWarming() {
        warmSince.store(0, ordering: .relaxed)
    }

    /// Milliseconds since the begin of the slow start; `nil` without one.
    func warmingTime(at now: MonotonicMilliseconds) -> UInt64? {
        let since = warmSince.load(ordering: .relaxed)
        return since == 0 ? nil : UInt64(max(MonotonicMilliseconds(rawValue: since).elapsed(until: now), 0))
    }

    /// A cost during the slow start: divided by the elapsed part of it, which counts as at least a tenth.
    @inline(never)
    func warmingCost(_ cost: UInt64, slowStart: UInt64, at now: MonotonicMilliseconds) -> UInt64 {
        guard let age = warmingTime(at: now), age < slowStart else { return cost }
        return cost / 16 * min(slowStart * 16 / max(age, 1), 160)
    }
}
