public import CloakroomCore

/// Decides which traces are recorded; the samplers of OpenTelemetry's SDK, named as in `OTEL_TRACES_SAMPLER`.
public struct TraceSampler: Sendable, Equatable {
    /// A trace without a parent is recorded if 63 bits of its id are below this value.
    private let bound: UInt64
    /// Whether the parent's decision has priority.
    private var followsParent = false

    private init(below bound: UInt64) { self.bound = bound }

    /// Records every trace.
    public static let alwaysOn = TraceSampler(below: 1 << 63)
    /// Records no trace.
    public static let alwaysOff = TraceSampler(below: 0)

    /// Records this fraction of all traces, clamped to 0...1; NaN is 0. The decision depends only on the trace id, so
    /// all participants of a trace decide alike.
    public static func traceIDRatio(_ ratio: Double) -> TraceSampler {
        ratio >= 1 ? alwaysOn : ratio > 0 ? TraceSampler(below: UInt64(ratio * 0x1p63)) : alwaysOff
    }

    /// Uses the parent's decision; without a parent, the decision of this sampler.
    public var parentBased: TraceSampler {
        var sampler = self
        sampler.followsParent = true
        return sampler
    }

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
        return traceID.low >> 1 < bound
    }
}
