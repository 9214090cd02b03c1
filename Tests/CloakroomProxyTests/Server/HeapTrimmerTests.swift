import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("Returning memory to the system")
struct HeapTrimmerTests {
    @Test("A trim is due after each large drop in connections, and once more, for memory that is released with a delay")
    func due() {
        var memory = HeapTrimmer()
        let steps = [
            (0, false), (9_000, false), (5_000, false), (4_500, true), (4_400, true), (4_300, false), (10, true),
            (9, true), (8, false),
        ]
        for (connections, shouldTrim) in steps {
            let said = memory.shouldTrim(connections: connections)
            expect(said, equals: shouldTrim)
        }
        let last = memory.shouldTrim(connections: 0)
        expect(!last, "the memory of ten connections is not worth a trim")
    }
}
