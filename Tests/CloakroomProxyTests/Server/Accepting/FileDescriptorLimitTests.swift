import Glibc
import Testing

@testable import CloakroomProxy

@Suite("File descriptors")
struct FileDescriptorLimitTests {
    @Test(
        "A reserve and descriptors for the upstreams are set aside, but at most half",
        arguments: [
            (1_024, 64, 1_024, 480), (1_024, 64, 100, 860), (20_000, 1_000, 1_024, 17_976),
            (20_000, 1_000, 65_535, 9_500), (1_048_576, 52_428, 1_024, 995_124), (64, 64, 10, 1), (0, 64, 10, 1),
        ])
    func reserve(total: Int, reserve: Int, upstreams: Int, connections: Int) {
        let limit = FileDescriptorLimit(total: total)
        #expect(limit.reserve == reserve)
        #expect(limit.connections(beside: upstreams) == connections)
    }

    @Test("The process raises its descriptor limit to the hard limit")
    func raised() throws {
        let limit = try #require(FileDescriptorLimit.raiseToHardLimit())
        #expect(limit.total >= 256)
        #expect(FileDescriptorLimit.raiseToHardLimit() == limit)
        #expect(limit.total == sysconf(CInt(_SC_OPEN_MAX)))
    }
}
