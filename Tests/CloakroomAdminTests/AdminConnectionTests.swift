import NIOCore
import NIOEmbedded
import TestSupport
import Testing

@testable import CloakroomAdmin

@Suite("HTTP/1.1 of the admin listener")
struct AdminConnectionTests {
    private static let chunked =
        "POST /sessions/revoke?a=b HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        + "3;a=b\r\nabc\r\n1\r\nd\r\n0\r\nX-A: b\r\n\r\n"

    @Test("Requests are served in order, one at a time, in all splits", arguments: [1, 2, 7, 1_000])
    func pipelining(size: Int) throws {
        let made = try EmbeddedConnection()
        var bytes = ByteBuffer(string: EmbeddedConnection.request + Self.chunked + "\r\n" + EmbeddedConnection.request)
        while let part = bytes.readSlice(length: min(size, bytes.readableBytes)), part.readableBytes > 0 {
            try made.channel.writeInbound(part)
        }
        for count in 1...3 {
            expect(made.served.requests.count, equals: count)
            try expect(empty: made.output())
            made.respond()
            let output = try made.output()
            expect(output.hasPrefix("HTTP/1.1 200 OK\r\n") && output.hasSuffix("\r\n\r\naa"))
            expect(output.contains("\r\nContent-Length: 2\r\n") && output.contains("\r\nDate: "))
            expect(!output.contains("\r\nConnection: "))
        }
        expect(made.isOpen)
        expect(made.served.requests.map(\.method), equals: ["GET", "POST", "GET"])
        expect(made.served.requests.map(\.path), equals: ["/live", "/sessions/revoke", "/live"])
        expect(made.served.requests.map { String(decoding: $0.body, as: UTF8.self) }, equals: ["", "abcd", ""])
    }

    @Test(
        "A malformed request gets 400, and ends the connection",
        arguments: [
            "GET /live HTTP/1.1\nHost: localhost\n\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            "GET /live HTTP/1.1\r\nHost: localhost\r\n X: a\r\n\r\n", "GET live HTTP/1.1\r\n\r\n",
            "CONNECT localhost:1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
            "POST /live HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na",
            "POST /live HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "POST /live HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "POST /live HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\na",
            "POST /live HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
            "GET /live HTTP/1.1\r\nConnection: \(String(repeating: "a,", count: 33))\r\n\r\n",
            // The comparison of such texts costs the square of their length.
            "GET /live\u{301} HTTP/1.1\r\nHost: localhost\r\n\r\n",
            "GET /live HTTP/1.1\r\nHost: localhost\u{301}\r\n\r\n",
            "GET /live HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: none\u{301}\r\n\r\n",
        ])
    func malformed(request: String) throws {
        let made = try EmbeddedConnection()
        // What follows is not served.
        try made.receive(request + EmbeddedConnection.request)
        let output = try made.output()
        expect(output.hasPrefix("HTTP/1.1 400 Bad Request\r\n") && output.contains("\r\nConnection: close\r\n"))
        expect(output.contains("urn:cloakroom:problem:bad_request"))
        expect(!made.isOpen)
        expect(empty: made.served.requests)
    }

    @Test("A parameter of the query that is longer than any name is none")
    func parameters() throws {
        let made = try EmbeddedConnection()
        // The comparison of such texts costs the square of their length.
        let long = String(repeating: "%CC%81", count: 257)
        try made.receive("GET /status.json?a=\(long)&b%CC%81=c&b=d%2E%C3%A9 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        let request = try require(made.served.requests.first)
        expect(request.parameter("a") == nil && request.parameter("b") == "d.é")
    }

    @Test(
        "The connection ends after the response if the client requests it",
        arguments: [
            "GET /live HTTP/1.1\r\nConnection: x, Close\r\n\r\n", "GET /live HTTP/1.0\r\n\r\n",
            "GET /live HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
        ])
    func last(request: String) throws {
        let made = try EmbeddedConnection()
        try made.receive(request + EmbeddedConnection.request)
        expect(made.isOpen)
        made.respond()
        try expect(made.output().contains("\r\nConnection: close\r\n"))
        expect(!made.isOpen)
        expect(made.served.requests.count, equals: 1)
    }

    @Test("A client that ends its side receives the response to a complete request")
    func halfClosure() throws {
        for request in [EmbeddedConnection.request, "", "GET /live HTTP/1.1\r\n", String(Self.chunked.dropLast())] {
            let made = try EmbeddedConnection()
            try made.receive(request)
            made.channel.pipeline.fireUserInboundEventTriggered(ChannelEvent.inputClosed)
            expect(made.isOpen, equals: !made.served.requests.isEmpty)
            made.respond()
            expect(!made.isOpen)
            try expect(made.output().isEmpty, equals: made.served.requests.isEmpty)
        }
    }

    @Test("Requests that were complete before the client ended its side are served")
    func pipelinedHalfClosure() throws {
        for rest in ["", "GET /live"] {
            let made = try EmbeddedConnection()
            try made.receive(EmbeddedConnection.request + EmbeddedConnection.request + rest)
            made.channel.pipeline.fireUserInboundEventTriggered(ChannelEvent.inputClosed)
            for _ in 0..<2 {
                expect(made.isOpen)
                made.respond()
            }
            expect(made.served.requests.count, equals: 2)
            expect(!made.isOpen)
        }
    }

    @Test("Draining ends a connection at once, or after the response to a request whose head is complete")
    func drain() throws {
        for request in ["", "G", EmbeddedConnection.request, Self.chunked] {
            let made = try EmbeddedConnection()
            // Part of the body is received later.
            try made.receive(String(request.prefix(90)))
            made.connection.finish()
            expect(made.isOpen, equals: request.count > 1)
            if made.isOpen { try made.receive(String(request.dropFirst(90))) }
            made.respond()
            expect(!made.isOpen)
            let output = try made.output()
            expect(output.contains("\r\nConnection: close\r\n"), equals: !made.served.requests.isEmpty)
        }
    }
}
