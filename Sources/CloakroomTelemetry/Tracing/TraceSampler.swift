public import CloakroomCore

/// Decides which traces are recorded; the samplers of OpenTelemetry's SDK, named as in `OTEL_TRACES_SAMPLER`.
public struct TraceSampler: Sendable, Equatable {
    enum Root: Sendable, Equatable {
        case alwaysOn
        case alwaysOff
        /// Traces are recorded if the lower 63 bits of their id are below this value.
        case below(UInt64)
    }

    private let root: Root
    /// Whether the parent's decision has priority.
    private let followsParent: Bool

    private init(_ root: Root, followsParent: Bool) {
        self.root = root
        self.followsParent = followsParent
    }

    /// Records every trace.
    public static let alwaysOn = TraceSampler(.alwaysOn, followsParent: false)
    /// Records no trace.
    public static let alwaysOff = TraceSampler(.alwaysOff, followsParent: false)

    /// Records this fraction of all traces, clamped to 0...1; NaN is 0. The decision depends only on the trace id, so
    /// all participants of a trace decide alike.
    public static func traceIDRatio(_ ratio: Double) -> TraceSampler {
        if ratio >= 1 { return TraceSampler(.below(1 << 63), followsParent: false) }
        guard ratio > 0 else { return TraceSampler(.below(0), followsParent: false) }
        return TraceSampler(.below(UInt64(ratio * 0x1p63)), followsParent: false)
    }

    /// Uses the parent's decision; without a parent, the decision of this sampler.
    public var parentBased: TraceSampler { TraceSampler(root, followsParent: true) }

    /// The configured sampler; the ratio is clamped to 0...1.
    public init(_ configuration: SamplerConfiguration) {
        let sampler: TraceSampler =
            switch configuration.root {
            case .alwaysOn: .alwaysOn
            case .alwaysOff: .alwaysOff
            case .traceIDRatio: .traceIDRatio(configuration.ratio)
            }
        self = configuration.isParentBased ? sampler.parentBased : sampler
    }

    /// Decides whether to record a trace.
    ///
    /// - Parameters:
    ///   - traceID: The trace id; a ratio uses its lower 64 bits without the last one, as other SDKs do.
    ///   - parent: The context that the request continues, if any.
    public func isSampled(traceID: ID128, parent: TraceContext?) -> Bool {
        if followsParent, let parent { return parent.isSampled }
        switch root {
        case .alwaysOn: return true
        case .alwaysOff: return false
        case .below(let bound): return traceID.low >> 1 < bound
        }
    }
}
