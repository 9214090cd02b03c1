import CloakroomWire
import NIOCore
import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("The lifetime of an upstream connection")
struct ConnectionLifetimeTests {
    @Test("Without limits the lifetime is unlimited")
    func unlimited() {
        expect(!ConnectionLifetime().isOver(now: .max - 1))
    }

    @Test("It ends at a maximum age")
    func limited() {
        let lifetime = ConnectionLifetime(until: 100)
        expect(!lifetime.isOver(now: 99))
        expect(lifetime.isOver(now: 100))
    }

    @Test(
        "The upstream's keep-alive timeout applies, less one second (RFC 2068 §19.7.1.1), unless it is invalid",
        arguments: [
            ("timeout=5", 4), ("timeout=5, max=100", 4), ("max=100, Timeout=60", 59), ("TIMEOUT=2;x", 1),
            ("timeout=1", 0), ("timeout=0", 0), ("timeout=9999999", 999_998),
            ("", nil), ("timeout", nil), ("timeout=", nil), ("timeout=x", nil), ("max=5", nil), ("time=5", nil),
        ] as [(String, UInt64?)])
    func hint(value: String, seconds: UInt64?) throws {
        let lifetime = try read("Keep-Alive: \(value)")
        expect(lifetime.idleLimit, equals: seconds.map { $0 * 1_000_000_000 } ?? .max)
        expect(lifetime.isOver(now: 0), equals: seconds == 0)
    }

    private func read(_ line: String) throws -> ConnectionLifetime {
        var bytes = ByteBuffer(string: "HTTP/1.1 200 OK\r\n\(line)\r\nContent-Length: 0\r\n\r\n")
        var head = ResponseHead()
        var parser = HeadParser(limits: HeadLimits(head: 4_096, fields: 10, target: 100))
        let isComplete = try parser.parse(&bytes, into: &head)
        expect(isComplete)
        var lifetime = ConnectionLifetime()
        lifetime.applyKeepAliveTimeout(of: head)
        return lifetime
    }
}
