import Testing

@testable import CloakroomTelemetry

@Suite("Trace sampler")
struct TraceSamplerTests {
    private func parent(sampled: Bool) -> TraceContext {
        TraceContext(traceID: Identifier128(high: 1, low: 1), spanID: 1, flags: sampled ? 1 : 0)
    }

    private let id = Identifier128(high: 7, low: 1 << 63)

    @Test("Constant samplers ignore the parent, parent-based ones follow it")
    func parents() throws {
        for (name, root) in [("always_on", true), ("always_off", false)] {
            let plain = try #require(TraceSampler(name: name))
            let following = try #require(TraceSampler(name: "parentbased_" + name))
            for sampled in [true, false] {
                #expect(plain.isSampled(traceID: id, parent: parent(sampled: sampled)) == root)
                #expect(following.isSampled(traceID: id, parent: parent(sampled: sampled)) == sampled)
            }
            #expect(following.isSampled(traceID: id, parent: nil) == root)
        }
    }

    @Test("A ratio takes about that part of all traces", arguments: [0.0, 0.01, 0.25, 0.5, 1.0])
    func ratio(ratio: Double) {
        let source = TraceIDSource(seeds: (11, 13))
        let sampler = TraceSampler.traceIDRatio(ratio)
        let taken = (0..<20_000).count { _ in sampler.isSampled(traceID: source.next128(), parent: nil) }
        #expect(abs(Double(taken) / 20_000 - ratio) < 0.015)
    }

    @Test("The lower 64 bits of the trace id decide, as the other SDKs decide")
    func boundary() {
        let half = TraceSampler.traceIDRatio(0.5)
        #expect(half.isSampled(traceID: Identifier128(high: .max, low: (1 << 63) - 1), parent: nil))
        #expect(!half.isSampled(traceID: Identifier128(high: 0, low: 1 << 63), parent: nil))
        #expect(TraceSampler.traceIDRatio(1).isSampled(traceID: Identifier128(high: 0, low: .max), parent: nil))
        #expect(!TraceSampler.traceIDRatio(0).isSampled(traceID: Identifier128(high: 1, low: 0), parent: nil))
        #expect(!TraceSampler.traceIDRatio(.nan).isSampled(traceID: id, parent: nil))
    }

    @Test("Names are OpenTelemetry's; what is not understood is refused")
    func names() {
        #expect(TraceSampler(name: "traceidratio", argument: "0.5") == .traceIDRatio(0.5))
        #expect(TraceSampler(name: "traceidratio") == .traceIDRatio(1))
        #expect(TraceSampler(name: "parentbased_traceidratio", argument: "0.1") == .traceIDRatio(0.1).parentBased)
        for argument in ["", "x", "1.1", "-0.1", "nan"] {
            #expect(TraceSampler(name: "traceidratio", argument: argument) == nil)
        }
        #expect(TraceSampler(name: "ALWAYS_ON") == nil)
        #expect(TraceSampler(name: "parentbased_") == nil)
    }
}
