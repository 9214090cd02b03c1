import CloakroomWire
import TestSupport
import Testing

@testable import CloakroomTelemetry

@Suite("Handle cache")
struct HandleCacheTests {
    @Test("Inserted entries are found after growth and collisions, and nothing else is")
    func growth() {
        var cache = HandleCache<GaugeHandle>()
        var handles: [HandleKey: GaugeHandle] = [:]
        for index: UInt64 in 0..<1_000 {
            let key = HandleKey().adding(index, bits: 40).adding(index % 7, bits: 3)
            let handle = GaugeHandle()
            handles[key] = handle
            expect(cache.insert(handle, for: key) === handle)
        }
        expect(handles.allSatisfy { cache[$0.key] === $0.value })
        expect(cache[HandleKey()] == nil)
        expect(cache.count, equals: 1_000)
    }

    @Test("A full cache accepts no more entries, and lookups still work")
    func limit() {
        var cache = HandleCache<GaugeHandle>(limit: 10)
        for index in 0..<1_000 { _ = cache.insert(GaugeHandle(), for: HandleKey().adding(index: index)) }
        expect(cache.count, equals: 10)
        expect(cache[HandleKey().adding(index: 9)] != nil)
        expect(cache[HandleKey().adding(index: 10)] == nil)
    }
}

@Suite("Handle key")
struct HandleKeyTests {
    @Test("Every value has bits of its own, whatever the others are")
    func widths() {
        let widths: [UInt64] = [16, 1, 5, 22, 10, 9]
        for changed in widths.indices {
            for others in [0, UInt64.max] {
                func key(_ value: UInt64) -> HandleKey {
                    widths.indices.reduce(HandleKey()) { $0.adding($1 == changed ? value : others, bits: widths[$1]) }
                }
                let largest = UInt64(1) << widths[changed] - 1
                expect(
                    Set([0, 1, largest / 2, largest].map(key)).count, equals: Set([0, 1, largest / 2, largest]).count)
                expect(key(largest), equals: key(.max), "higher bits are ignored")
            }
        }
    }

    @Test("No key is 0, and an index of -1 differs from all others")
    func marks() {
        let keys = [-1, 0, 1, 1 << 22 - 2].map { HandleKey().adding(index: $0) }
        expect(Set(keys).count, equals: keys.count)
        expect(keys.allSatisfy { $0.word != 0 } && HandleKey().word != 0)
    }

    @Test("The enumerations in keys have at most 32 cases, with the absence of an error")
    func enumerations() {
        for count in [
            RequestMethod.allCases.count, URIScheme.allCases.count, HTTPProtocolVersion.allCases.count,
            ExchangeDecision.allCases.count, ExchangeErrorType.allCases.count + 1,
        ] {
            #expect(count <= 32)
        }
    }
}
