import NIOCore
import NIOEmbedded
import Testing

@testable import CloakroomAdmin

@Suite("The connections to the admin listener")
struct AdminConnectionLimitTests {
    private let limit = AdminConnectionLimit()

    private func connect(_ peer: String) throws -> EmbeddedChannel {
        let channel = EmbeddedChannel(handler: AdminConnectionHandler(limit, peer: peer) {})
        try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
        return channel
    }

    private func isOpen(_ channel: EmbeddedChannel) -> Bool {
        channel.embeddedEventLoop.run()
        return channel.isActive
    }

    private func receiveHead(_ channel: EmbeddedChannel) throws {
        try channel.writeInbound(ByteBuffer(string: "GET / HTTP/1.1\r\n\r\n"))
        channel.triggerUserOutboundEvent(AdminRequestHeads.HeadReceived(), promise: nil)
    }

    @Test("Rule 70: beyond 32 connections of one address, the one without progress for the longest time is closed")
    func perAddress() throws {
        let other = try connect("192.0.2.2")
        let channels = try (0..<AdminConnectionLimit.perAddress).map { _ in try connect("192.0.2.1") }
        try channels[0].writeInbound(ByteBuffer(string: "G"))
        let further = try connect("192.0.2.1")
        #expect(isOpen(further) && isOpen(other))
        #expect(channels.map(isOpen) == channels.indices.map { $0 != 1 })
        // A closed connection makes room.
        channels[2].close(promise: nil)
        #expect(!isOpen(channels[2]))
        _ = try connect("192.0.2.1")
        #expect(isOpen(channels[3]))
        _ = try connect("192.0.2.1")
        #expect(!isOpen(channels[3]))
    }

    @Test("Rule 70: a connection that waits for its response is closed after the others, and until its response begins")
    func served() throws {
        let channels = try (0..<AdminConnectionLimit.perAddress).map { _ in try connect("192.0.2.1") }
        try receiveHead(channels[0])
        try receiveHead(channels[1])
        for channel in channels.dropFirst(2) { try channel.writeInbound(ByteBuffer(string: "G")) }
        try channels[1].writeOutbound(ByteBuffer(string: "HTTP/1.1 200 OK"))
        for _ in 2..<AdminConnectionLimit.perAddress { _ = try connect("192.0.2.1") }
        #expect(isOpen(channels[0]) && isOpen(channels[1]))
        _ = try connect("192.0.2.1")
        #expect(isOpen(channels[0]) && !isOpen(channels[1]))
    }

    @Test("Rule 70: beyond 128 connections, one of the address with the most is closed")
    func total() throws {
        let single = try connect("198.51.100.1")
        let channels = try (1..<AdminConnectionLimit.total).map { try connect("192.0.2.\($0 % 5)") }
        // One of the two addresses with 26 connections.
        let further = try connect("198.51.100.2")
        #expect(isOpen(single) && isOpen(further))
        #expect(channels.filter { !isOpen($0) }.count == 1)
    }

    @Test("Rule 70: clients leave at most 64 MiB unread in total; the response without progress is closed first")
    func output() throws {
        let body = ByteBuffer(repeating: 0x61, count: AdminConnectionLimit.output / 4)
        let idle = try connect("192.0.2.1")
        // Written but not flushed, as if the socket accepted nothing.
        let unread = try (0..<4).map { _ in
            let channel = try connect("192.0.2.1")
            channel.write(body, promise: nil)
            return channel
        }
        #expect(unread.allSatisfy(isOpen))
        let scraper = try connect("192.0.2.2")
        scraper.write(body, promise: nil)
        #expect(isOpen(idle) && isOpen(scraper))
        #expect(unread.map(isOpen) == [false, true, true, true])
        // What a client has taken does not count.
        scraper.flush()
        unread[1].write(body, promise: nil)
        #expect(unread.map(isOpen) == [false, true, true, true])
        // A single response may be larger.
        for _ in 0..<4 { unread[1].write(body, promise: nil) }
        #expect(unread.map(isOpen) == [false, true, false, false])
    }
}
