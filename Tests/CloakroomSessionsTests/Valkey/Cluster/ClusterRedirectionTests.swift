import CloakroomCore
import Testing

@testable import CloakroomSessions

@Suite("Redirections of a cluster")
struct ClusterRedirectionTests {
    @Test("MOVED and ASK name a slot and another server")
    func valid() throws {
        let asked = HostAndPort(host: "asked.test", port: 1)
        let cases: [(String, ClusterRedirection.Kind, Int, String)] = [
            ("MOVED 3999 127.0.0.1:6381", .moved, 3_999, "127.0.0.1:6381"),
            ("ASK 16383 valkey-1.test:6379", .ask, 16_383, "valkey-1.test:6379"),
            ("MOVED 0 ::1:6379", .moved, 0, "[::1]:6379"),
            ("MOVED 0 2001:db8::5:65535", .moved, 0, "[2001:db8::5]:65535"),
            ("MOVED 1 [::1]:6379", .moved, 1, "[::1]:6379"),
            ("MOVED 1 :6379", .moved, 1, "asked.test:6379"),
            ("ASK 1 ?:6379", .ask, 1, "asked.test:6379"),
        ]
        for (line, kind, slot, address) in cases {
            let redirection = try #require(RESPError(line: line).redirection, "\(line)")
            #expect(redirection.kind == kind)
            #expect(redirection.slot == slot)
            #expect(redirection.address(from: asked).description == address)
        }
    }

    @Test(
        "Anything else is no redirection",
        arguments: [
            "MOVED", "MOVED 1", "MOVED 1 a", "MOVED 1 a:", "MOVED 1 a:0", "MOVED 1 a:65536", "MOVED 1 a:-1",
            "MOVED 16384 a:1", "MOVED -1 a:1", "MOVED x a:1", "MOVED 1 a:1 b", "MOVED  1 a:1", "MOVED 1 a b:1",
            "ASK 1 a/b:1", "ASK 1 a\u{0}:1", "ASK 1 \u{e4}:1", "ERR 1 a:1", "moved 1 a:1", "CLUSTERDOWN 1 a:1",
            "MOVED 1 \(String(repeating: "a", count: 254)):1",
        ])
    func invalid(_ line: String) {
        #expect(RESPError(line: line).redirection == nil)
    }
}
