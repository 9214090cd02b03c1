import Testing

@testable import CloakroomProxy

@Suite("Giving memory back")
struct MemoryReturnTests {
    @Test("It is due once for each crowd that has gone")
    func due() {
        var memory = MemoryReturn()
        let steps = [(0, false), (9_000, false), (5_000, false), (4_500, true), (4_400, false), (10, true), (9, false)]
        for (connections, isDue) in steps { #expect(memory.isDue(connections: connections) == isDue) }
        #expect(!memory.isDue(connections: 0), "what ten leave behind is not worth it")
    }
}
