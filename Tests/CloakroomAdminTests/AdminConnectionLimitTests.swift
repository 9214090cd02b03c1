import NIOCore
import NIOEmbedded
import TestSupport
import Testing

@testable import CloakroomAdmin

@Suite("The connections to the admin listener")
struct AdminConnectionLimitTests {
    private let limit = AdminConnectionLimit()

    private func connect(_ peer: String) throws -> EmbeddedConnection { try EmbeddedConnection(limit, peer: peer) }

    @Test("Rule 70: beyond 32 connections of one address, the one without progress for the longest time is closed")
    func perAddress() throws {
        let other = try connect("192.0.2.2")
        let connections = try (0..<AdminConnectionLimit.perAddress).map { _ in try connect("192.0.2.1") }
        try connections[0].receive("G")
        let further = try connect("192.0.2.1")
        expect(further.isOpen && other.isOpen)
        expect(further.served.rejections, equals: [.connections])
        expect(connections.map(\.isOpen), equals: connections.indices.map { $0 != 1 })
        // A closed connection makes room.
        connections[2].channel.close(promise: nil)
        expect(!connections[2].isOpen)
        _ = try connect("192.0.2.1")
        expect(connections[3].isOpen)
        _ = try connect("192.0.2.1")
        expect(!connections[3].isOpen)
    }

    @Test("Rule 70: a connection that waits for its response is closed after the others, and until its response begins")
    func served() throws {
        let connections = try (0..<AdminConnectionLimit.perAddress).map { _ in try connect("192.0.2.1") }
        try connections[0].receive()
        try connections[1].receive()
        // One that withholds the body of its request does not wait.
        try connections[2].receive("POST /live HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\n")
        for connection in connections.dropFirst(3) { try connection.receive("G") }
        connections[1].respond()
        for _ in 2..<AdminConnectionLimit.perAddress { _ = try connect("192.0.2.1") }
        expect(connections[0].isOpen && connections[1].isOpen && !connections[2].isOpen)
        _ = try connect("192.0.2.1")
        expect(connections[0].isOpen && !connections[1].isOpen)
    }

    @Test("Rule 70: beyond 128 connections, one of the address with the most is closed")
    func total() throws {
        let single = try connect("198.51.100.1")
        let connections = try (1..<AdminConnectionLimit.total).map { try connect("192.0.2.\($0 % 5)") }
        // One of the two addresses with 26 connections.
        let further = try connect("198.51.100.2")
        expect(single.isOpen && further.isOpen)
        expect(connections.filter { !$0.isOpen }.count, equals: 1)
    }

    @Test("Rule 70: clients leave at most 64 MiB unread in total; the response without progress is closed first")
    func output() throws {
        func connect(_ peer: String, unread size: Int) throws -> EmbeddedConnection {
            let connection = try self.connect(peer)
            try connection.receive()
            connection.respond(size, isTaken: false)
            return connection
        }
        // With its head, the response is larger than a quarter of the bound minus 1 KiB, and smaller than a quarter.
        let quarter = AdminConnectionLimit.output / 4 - 1_024
        let idle = try self.connect("192.0.2.1")
        let unread = try (0..<4).map { _ in try connect("192.0.2.1", unread: quarter) }
        expect(unread.allSatisfy { $0.isOpen })
        // What a client sends meanwhile is no progress.
        try unread[0].receive("G")
        let scraper = try connect("192.0.2.2", unread: quarter)
        expect(idle.isOpen && scraper.isOpen)
        expect(unread.map(\.isOpen), equals: [false, true, true, true])
        // What a client has taken does not count.
        scraper.take()
        let next = try connect("192.0.2.1", unread: quarter)
        expect(next.isOpen)
        expect(unread.map(\.isOpen), equals: [false, true, true, true])
        // A single response may be larger.
        let large = try connect("192.0.2.3", unread: AdminConnectionLimit.output + 1)
        expect(large.isOpen && idle.isOpen && scraper.isOpen)
        expect(![next, unread[1], unread[2], unread[3]].contains { $0.isOpen })
    }
}
