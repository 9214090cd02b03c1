public import CloakroomCore

/// Which traces are recorded; the samplers of OpenTelemetry's SDK, under the names of `OTEL_TRACES_SAMPLER`.
public struct TraceSampler: Sendable, Equatable {
    enum Root: Sendable, Equatable {
        case alwaysOn
        case alwaysOff
        /// Traces whose id's lower 63 bits are below this are recorded.
        case below(UInt64)
    }

    private let root: Root
    /// Whether a parent's decision goes before ours.
    private let followsParent: Bool

    private init(_ root: Root, followsParent: Bool) {
        self.root = root
        self.followsParent = followsParent
    }

    /// Records every trace.
    public static let alwaysOn = TraceSampler(.alwaysOn, followsParent: false)
    /// Records no trace.
    public static let alwaysOff = TraceSampler(.alwaysOff, followsParent: false)

    /// Records this part of all traces, from 0 to 1; what lies outside is brought inside, NaN is 0. The decision depends
    /// on the trace id alone, so that all who take part in a trace decide alike.
    public static func traceIDRatio(_ ratio: Double) -> TraceSampler {
        if ratio >= 1 { return TraceSampler(.below(1 << 63), followsParent: false) }
        guard ratio > 0 else { return TraceSampler(.below(0), followsParent: false) }
        return TraceSampler(.below(UInt64(ratio * 0x1p63)), followsParent: false)
    }

    /// Does as the parent did; without a parent, as this sampler would.
    public var parentBased: TraceSampler { TraceSampler(root, followsParent: true) }

    /// What a plan says; a ratio outside of 0...1 is brought inside.
    public init(_ configuration: SamplerConfiguration) {
        let sampler: TraceSampler =
            switch configuration.root {
            case .alwaysOn: .alwaysOn
            case .alwaysOff: .alwaysOff
            case .traceIDRatio: .traceIDRatio(configuration.ratio)
            }
        self = configuration.isParentBased ? sampler.parentBased : sampler
    }

    /// Whether to record a trace.
    ///
    /// - Parameters:
    ///   - traceID: the trace; the lower 64 bits decide a ratio, without the last of them, as the other SDKs have it.
    ///   - parent: what the request continues, if anything.
    public func isSampled(traceID: ID128, parent: TraceContext?) -> Bool {
        if followsParent, let parent { return parent.isSampled }
        switch root {
        case .alwaysOn: return true
        case .alwaysOff: return false
        case .below(let bound): return traceID.low >> 1 < bound
        }
    }
}
