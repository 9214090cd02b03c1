import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomTelemetry

@Suite("Trace sampler")
struct TraceSamplerTests {
    private func parent(sampled: Bool) -> TraceContext {
        TraceContext(traceID: ID128(high: 1, low: 1), spanID: 1, flags: sampled ? 1 : 0)
    }

    private let id = ID128(high: 7, low: 1 << 63)

    @Test("Constant samplers ignore the parent, parent-based ones follow it")
    func parents() {
        for (configuration, root) in [(SamplerConfiguration.Root.alwaysOn, true), (.alwaysOff, false)] {
            let plain = TraceSampler(SamplerConfiguration(root: configuration, isParentBased: false))
            let following = TraceSampler(SamplerConfiguration(root: configuration, isParentBased: true))
            for sampled in [true, false] {
                expect(plain.isSampled(traceID: id, parent: parent(sampled: sampled)), equals: root)
                expect(following.isSampled(traceID: id, parent: parent(sampled: sampled)), equals: sampled)
            }
            expect(following.isSampled(traceID: id, parent: nil), equals: root)
        }
    }

    @Test("A ratio samples approximately that share of all traces", arguments: [0.0, 0.01, 0.25, 0.5, 1.0])
    func ratio(ratio: Double) {
        let source = TraceIDSource(seeds: (11, 13))
        let sampler = TraceSampler.traceIDRatio(ratio)
        let taken = (0..<20_000).count { _ in sampler.isSampled(traceID: source.next128(), parent: nil) }
        #expect(abs(Double(taken) / 20_000 - ratio) < 0.015)
    }

    @Test("The lower 64 bits of the trace id decide, as in the other SDKs")
    func boundary() {
        let half = TraceSampler.traceIDRatio(0.5)
        expect(half.isSampled(traceID: ID128(high: .max, low: (1 << 63) - 1), parent: nil))
        expect(!half.isSampled(traceID: ID128(high: 0, low: 1 << 63), parent: nil))
        expect(TraceSampler.traceIDRatio(1).isSampled(traceID: ID128(high: 0, low: .max), parent: nil))
        expect(!TraceSampler.traceIDRatio(0).isSampled(traceID: ID128(high: 1, low: 0), parent: nil))
        expect(!TraceSampler.traceIDRatio(.nan).isSampled(traceID: id, parent: nil))
    }

    @Test("The configured ratio is used by ratio samplers only, and is clamped to 0...1")
    func configurations() {
        expect(TraceSampler(SamplerConfiguration(root: .alwaysOn, ratio: 0, isParentBased: false)), equals: .alwaysOn)
        expect(TraceSampler(SamplerConfiguration(root: .alwaysOff, ratio: 1, isParentBased: false)), equals: .alwaysOff)
        expect(
            TraceSampler(SamplerConfiguration(root: .traceIDRatio, ratio: 0.5, isParentBased: false)),
            equals: .traceIDRatio(0.5))
        expect(TraceSampler(SamplerConfiguration()), equals: .traceIDRatio(0.01).parentBased)
        for (ratio, inside) in [(1.1, 1.0), (-0.1, 0), (.nan, 0)] {
            expect(
                TraceSampler(SamplerConfiguration(ratio: ratio, isParentBased: false)), equals: .traceIDRatio(inside))
        }
    }
}
