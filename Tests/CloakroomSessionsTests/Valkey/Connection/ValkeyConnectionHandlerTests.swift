import NIOCore
import TestSupport
import Testing

@testable import CloakroomSessions

@Suite("The Valkey connection handler", .timeLimit(.minutes(3)))
struct ValkeyConnectionHandlerTests {
    @Test("Commands are sent immediately, and replies arrive in order, with pushes in between")
    func order() async throws {
        let connection = try EmbeddedConnection()
        let replies = try await connection.replies(["A", "B"]) {
            try expect(connection.sent(), equals: "*1\r\n$1\r\nA\r\n*1\r\n$1\r\nB\r\n")
            try connection.receive("+a\r\n>2\r\n+invalidate\r\n_\r\n-ERR b\r\n")
        }
        expect(replies, equals: [.success(.simple("a")), .failure(.rejected(RESPError(line: "ERR b")))])
    }

    @Test("The oldest command's deadline ends the connection, and all pending commands fail")
    func deadline() async throws {
        let connection = try EmbeddedConnection()
        let replies = try await connection.replies(["A", "B"]) {
            connection.advance(.milliseconds(150))
            try connection.receive("+a\r\n")
            connection.advance(.milliseconds(49))
            expect(connection.loss, equals: nil)
            connection.advance(.milliseconds(1))
            expect(connection.loss, equals: .timedOut)
        }
        expect(replies, equals: [.success(.simple("a")), .failure(.disconnected)])
    }

    @Test("An idle connection sends a ping every 500 ms, and is closed without a reply")
    func heartbeat() throws {
        let connection = try EmbeddedConnection(timeout: .seconds(20), delegate: IgnoringDelegate())
        let ping = "*1\r\n$4\r\nPING\r\n"
        for _ in 0..<3 {
            connection.advance(.milliseconds(499))
            try expect(connection.sent(), equals: "")
            connection.advance(.milliseconds(1))
            try expect(connection.sent(), equals: ping)
            try connection.receive("+PONG\r\n")
        }
        connection.advance(.milliseconds(500))
        try expect(connection.sent(), equals: ping)
        connection.advance(.milliseconds(19_999))
        expect(connection.loss, equals: nil)
        connection.advance(.milliseconds(1))
        expect(connection.loss, equals: .timedOut)
        try expect(connection.sent(), equals: "")
    }

    @Test("An error that identifies an unusable server is reported, and ends the connection")
    func unfit() async throws {
        let connection = try EmbeddedConnection()
        let replies = try await connection.replies(["A", "B"]) {
            try connection.receive("-READONLY You can't write\r\n+OK\r\n")
            expect(connection.loss, equals: .notPrimary(code: "READONLY"))
        }
        expect(replies, equals: [.failure(.rejected(RESPError(line: "READONLY x"))), .failure(.disconnected)])
    }

    @Test("After the end nothing is sent; the number of pending commands is limited")
    func bounds() async throws {
        let connection = try EmbeddedConnection()
        connection.handler.close(.closed)
        try await expect(connection.replies(["A"]) {}, equals: [.failure(.notConnected)])
        let other = try EmbeddedConnection()
        let many = Array(repeating: "A", count: PendingCommands.maximumCount + 1)
        let rejected = try await other.replies(many) { _ = try other.sent() }
        expect(rejected.allSatisfy { $0 == .failure(.overloaded) })
    }

    @Test("The size of pending commands is limited, and that of completed ones does not count")
    func size() {
        let entry = PendingCommands.Entry(batch: nil, index: 0, deadline: .now(), size: PendingCommands.maximumSize)
        var pending = PendingCommands()
        for _ in 0..<3 {
            expect(pending.hasRoom(for: 1, size: entry.size))
            pending.append(entry)
            expect(!pending.hasRoom(for: 1, size: 1))
            expect(pending.popFirst() != nil)
        }
    }

    private struct IgnoringDelegate: ValkeyLinkDelegate {
        func linkChanged(isUp: Bool) {}
        func pushed(_ message: [RESPValue]) {}
    }
}
