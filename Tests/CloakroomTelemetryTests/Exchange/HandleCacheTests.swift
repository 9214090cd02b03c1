import Testing

@testable import CloakroomTelemetry

@Suite("Handle cache")
struct HandleCacheTests {
    @Test("Inserted entries are found after growth and collisions, and nothing else is")
    func growth() {
        var cache = HandleCache<GaugeHandle>()
        var handles: [UInt64: GaugeHandle] = [:]
        for index: UInt64 in 0..<1_000 {
            let key = index << 40 | index % 7
            let handle = GaugeHandle()
            handles[key] = handle
            cache.insert(handle, for: key)
        }
        #expect(handles.allSatisfy { cache[$0.key] === $0.value })
        #expect(cache[3] == nil)
        #expect(cache.count == 1_000)
    }

    @Test("A full cache accepts no more entries, and lookups still work")
    func limit() {
        var cache = HandleCache<GaugeHandle>(limit: 10)
        for key: UInt64 in 0..<1_000 where cache[key] == nil { cache.insert(GaugeHandle(), for: key) }
        #expect(cache.count == 10)
        #expect(cache[9] != nil)
        #expect(cache[10] == nil)
    }
}
