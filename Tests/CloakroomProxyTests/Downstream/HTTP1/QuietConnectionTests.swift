import NIOCore
import NIOEmbedded
import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomProxy

@Suite("Memory of idle HTTP/1.1 connections")
struct QuietConnectionTests {
    private struct Connection {
        let handler: HTTP1DownstreamHandler
        private let connection: EmbeddedConnection

        init(_ adjust: @escaping @Sendable (inout TimeoutsConfiguration) -> Void = { _ in }) throws {
            let setup = GatewaySetup().configuration { adjust(&$0.timeouts) }
            connection = try EmbeddedConnection(setup.makeConfig())
            handler = try connection.http1()
        }

        var channel: EmbeddedChannel { connection.channel }
        var context: LoopContext { connection.context }

        /// Sends a request and returns the start of the response.
        func request(_ text: String = "GET /nowhere HTTP/1.1\r\nHost: a\r\n\r\n") throws -> String {
            try connection.receive(text)
            return String(String(buffer: try connection.sent()).prefix(12))
        }

        /// Reports the handler's deadline, as the event loop does.
        func expire() { handler.deadlineExpired(now: handler.deadline) }
    }

    private final class Weak {
        private(set) weak var exchange: Exchange?

        init(_ exchange: Exchange?) { self.exchange = exchange }
    }

    @Test("A connection without a request has no exchange object")
    func unused() throws {
        let connection = try Connection()
        expect(connection.handler.exchange, equals: nil)
        try expect(connection.request(), equals: "HTTP/1.1 404")
        expect(connection.handler.exchange != nil)
    }

    @Test("A quiet connection releases the memory of its last request, stays open and serves the next one")
    func quiet() throws {
        let connection = try Connection()
        try expect(connection.request(), equals: "HTTP/1.1 404")
        let old = Weak(connection.handler.exchange)
        expect(old.exchange != nil)
        connection.expire()
        expect(old.exchange, equals: nil)
        expect(connection.channel.isActive)
        try expect(connection.request(), equals: "HTTP/1.1 404")
        expect(connection.channel.isActive)
    }

    @Test("A quiet connection is closed by the keep-alive timeout since its last response, not later")
    func keepAlive() throws {
        let connection = try Connection { $0.keepAlive = .seconds(10) }
        try expect(connection.request(), equals: "HTTP/1.1 404")
        let responded = connection.context.now
        expect(connection.handler.deadline, equals: responded + HTTP1DownstreamHandler.quietTime)
        connection.expire()
        expect(connection.handler.deadline, equals: responded + 10_000_000_000)
        connection.expire()
        expect(!connection.channel.isActive)
    }

    @Test("With a keep-alive timeout below the quiet time the connection is closed at once")
    func shortKeepAlive() throws {
        let connection = try Connection { $0.keepAlive = .seconds(1) }
        try expect(connection.request(), equals: "HTTP/1.1 404")
        connection.expire()
        expect(!connection.channel.isActive)
    }

    @Test("A head that begins before the quiet time has its own timeout, and its exchange is kept")
    func partialHead() throws {
        let connection = try Connection {
            $0.header = .seconds(5)
            $0.keepAlive = .seconds(60)
        }
        try expect(connection.request(), equals: "HTTP/1.1 404")
        try expect(connection.request("GET / HT"), equals: "")
        let begun = connection.context.now
        expect(connection.handler.deadline, equals: begun + 5_000_000_000)
        try expect(connection.request("TP/1.1\r\n"), equals: "")
        expect(connection.handler.deadline, equals: begun + 5_000_000_000)
        try expect(connection.request("Host: a\r\n\r\n"), equals: "HTTP/1.1 404")
    }

    @Test("The keep-alive timeout limits a head that begins just before it")
    func lateHead() throws {
        let connection = try Connection {
            $0.header = .seconds(60)
            $0.keepAlive = .seconds(10)
        }
        try expect(connection.request(), equals: "HTTP/1.1 404")
        let responded = connection.context.now
        try expect(connection.request("GET / HT"), equals: "")
        expect(connection.handler.deadline, equals: responded + 10_000_000_000)
    }

    @Test("A drain ends a connection that has released its memory")
    func drained() throws {
        let connection = try Connection()
        try expect(connection.request(), equals: "HTTP/1.1 404")
        connection.expire()
        connection.context.drain {}
        connection.channel.embeddedEventLoop.run()
        expect(!connection.channel.isActive)
    }
}
