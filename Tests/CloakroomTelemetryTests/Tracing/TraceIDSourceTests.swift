import CloakroomTelemetry
import TestSupport
import Testing

@Suite("Random numbers for ids")
struct SplitMix64Tests {
    @Test("Ids do not repeat, and all their bits vary")
    func generator() {
        var generator = SplitMix64()
        var seen: Set<UInt64> = []
        var ones: UInt64 = 0
        var zeros: UInt64 = 0
        for _ in 0..<10_000 {
            let value = generator.next()
            seen.insert(value)
            ones |= value
            zeros |= ~value
        }
        expect(seen.count, equals: 10_000)
        expect(ones, equals: .max)
        expect(zeros, equals: .max)
        var other = SplitMix64()
        expect(!seen.contains(other.next()))
    }
}
