import Glibc
import Testing

@testable import CloakroomProxy

@Suite("File descriptors")
struct DescriptorLimitTests {
    @Test(
        "A reserve is kept, and every connection may need two",
        arguments: [(1_024, 64, 480), (20_000, 1_000, 9_500), (1_048_576, 52_428, 498_074), (64, 64, 1), (0, 64, 1)])
    func reserve(total: Int, reserve: Int, connections: Int) {
        let limit = DescriptorLimit(total: total)
        #expect(limit.reserve == reserve)
        #expect(limit.connections == connections)
    }

    @Test("The process takes as many as it may have")
    func raised() throws {
        let limit = try #require(DescriptorLimit.raised())
        #expect(limit.total >= 256)
        #expect(DescriptorLimit.raised() == limit)
        #expect(limit.total == sysconf(CInt(_SC_OPEN_MAX)))
    }
}
