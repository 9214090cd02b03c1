import NIOCore
import NIOEmbedded
import Testing

@testable import CloakroomSessions

@Suite("The Valkey connection handler", .timeLimit(.minutes(3)))
struct ValkeyConnectionHandlerTests {
    /// A connection on a loop whose clock the test drives.
    private struct Connection {
        let channel = EmbeddedChannel()
        let handler: ValkeyConnectionHandler
        let closed: EventLoopFuture<ValkeyDisconnectReason>

        init(timeout: TimeAmount = .milliseconds(200)) throws {
            let promise = channel.embeddedEventLoop.makePromise(of: ValkeyDisconnectReason.self)
            closed = promise.futureResult
            handler = ValkeyConnectionHandler(timeout: timeout, disconnectCodes: ["READONLY"], closed: promise)
            try channel.pipeline.syncOperations.addHandler(handler)
            try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
        }

        /// The disconnect reason, if the connection has ended.
        var loss: ValkeyDisconnectReason? {
            get throws {
                var loss: ValkeyDisconnectReason?
                let box = NIOLoopBoundBox<ValkeyDisconnectReason?>(nil, eventLoop: channel.eventLoop)
                closed.whenSuccess { box.value = $0 }
                channel.embeddedEventLoop.run()
                loss = box.value
                return loss
            }
        }

        /// All bytes sent since the last call.
        func sent() throws -> String {
            channel.embeddedEventLoop.run()
            var text = ""
            while let buffer = try channel.readOutbound(as: ByteBuffer.self) { text += String(buffer: buffer) }
            return text
        }

        func receive(_ text: String) throws {
            try channel.writeInbound(ByteBuffer(string: text))
        }
    }

    private func replies(
        _ names: [String], _ connection: Connection, _ then: () throws -> Void
    ) async throws -> [Result<RESPValue, ValkeyCommandError>] {
        var failure: (any Error)?
        let replies = await withCheckedContinuation { continuation in
            let batch = PipelinedReplies(count: names.count, continuation)
            connection.handler.send(names.map { ValkeyCommand($0) }, to: batch)
            do { try then() } catch { failure = error }
            connection.handler.close(.closed)
        }
        if let failure { throw failure }
        return replies
    }

    @Test("Commands are sent immediately, and replies arrive in order, with pushes in between")
    func order() async throws {
        let connection = try Connection()
        let replies = try await replies(["A", "B"], connection) {
            #expect(try connection.sent() == "*1\r\n$1\r\nA\r\n*1\r\n$1\r\nB\r\n")
            try connection.receive("+a\r\n>2\r\n+invalidate\r\n_\r\n-ERR b\r\n")
        }
        #expect(replies == [.success(.simple("a")), .failure(.rejected(RESPError(line: "ERR b")))])
    }

    @Test("The oldest command's deadline ends the connection, and all pending commands fail")
    func deadline() async throws {
        let connection = try Connection()
        let replies = try await replies(["A", "B"], connection) {
            connection.channel.embeddedEventLoop.advanceTime(by: .milliseconds(150))
            try connection.receive("+a\r\n")
            connection.channel.embeddedEventLoop.advanceTime(by: .milliseconds(49))
            #expect(try connection.loss == nil)
            connection.channel.embeddedEventLoop.advanceTime(by: .milliseconds(1))
            #expect(try connection.loss == .timedOut)
        }
        #expect(replies == [.success(.simple("a")), .failure(.disconnected)])
    }

    @Test("An idle connection sends a ping every 500 ms, and is closed without a reply")
    func heartbeat() throws {
        let connection = try Connection(timeout: .seconds(20))
        #expect(connection.handler.activate(to: IgnoringDelegate()))
        let ping = "*1\r\n$4\r\nPING\r\n"
        for _ in 0..<3 {
            connection.channel.embeddedEventLoop.advanceTime(by: .milliseconds(499))
            #expect(try connection.sent() == "")
            connection.channel.embeddedEventLoop.advanceTime(by: .milliseconds(1))
            #expect(try connection.sent() == ping)
            try connection.receive("+PONG\r\n")
        }
        connection.channel.embeddedEventLoop.advanceTime(by: .milliseconds(500))
        #expect(try connection.sent() == ping)
        connection.channel.embeddedEventLoop.advanceTime(by: .milliseconds(19_999))
        #expect(try connection.loss == nil)
        connection.channel.embeddedEventLoop.advanceTime(by: .milliseconds(1))
        #expect(try connection.loss == .timedOut)
        #expect(try connection.sent() == "")
    }

    @Test("An unexpected reply and malformed RESP are protocol errors", arguments: ["+OK\r\n", "x"])
    func broken(_ text: String) throws {
        let connection = try Connection()
        try connection.receive(text)
        #expect(try connection.loss == .protocolError)
    }

    @Test("An error that identifies an unusable server is reported, and ends the connection")
    func unfit() async throws {
        let connection = try Connection()
        let replies = try await replies(["A", "B"], connection) {
            try connection.receive("-READONLY You can't write\r\n+OK\r\n")
            #expect(try connection.loss == .notPrimary(code: "READONLY"))
        }
        #expect(replies == [.failure(.rejected(RESPError(line: "READONLY x"))), .failure(.disconnected)])
    }

    @Test("After the end nothing is sent; the number of pending commands is limited")
    func bounds() async throws {
        let connection = try Connection()
        connection.handler.close(.closed)
        #expect(try await replies(["A"], connection) {} == [.failure(.notConnected)])
        let other = try Connection()
        let many = Array(repeating: "A", count: PendingCommands.maximumCount + 1)
        let rejected = try await replies(many, other) { _ = try other.sent() }
        #expect(rejected.allSatisfy { $0 == .failure(.overloaded) })
    }

    @Test("The size of pending commands is limited, and that of completed ones does not count")
    func size() {
        let entry = PendingCommands.Entry(batch: nil, index: 0, deadline: .now(), size: PendingCommands.maximumSize)
        var pending = PendingCommands()
        for _ in 0..<3 {
            #expect(pending.hasRoom(for: 1, size: entry.size))
            pending.append(entry)
            #expect(!pending.hasRoom(for: 1, size: 1))
            #expect(pending.popFirst() != nil)
        }
    }

    private struct IgnoringDelegate: ValkeyLinkDelegate {
        func linkChanged(isUp: Bool) {}
        func pushed(_ message: [RESPValue]) {}
    }
}
