import Testing

@testable import CloakroomProxy

@Suite("Giving memory back")
struct HeapTrimmerTests {
    @Test("It is due once for each crowd that has gone")
    func due() {
        var memory = HeapTrimmer()
        let steps = [(0, false), (9_000, false), (5_000, false), (4_500, true), (4_400, false), (10, true), (9, false)]
        for (connections, shouldTrim) in steps {
            let said = memory.shouldTrim(connections: connections)
            #expect(said == shouldTrim)
        }
        let last = memory.shouldTrim(connections: 0)
        #expect(!last, "what ten leave behind is not worth it")
    }
}
