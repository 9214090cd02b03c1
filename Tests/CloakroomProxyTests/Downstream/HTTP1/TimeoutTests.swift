import CloakroomCore
import NIOCore
import TestSupport
import Testing

@Suite("Slow clients (RFC 9110 §15.5.9)", .serialized)
struct TimeoutTests {
    @Test(
        "A request head that is not complete in time is 408, and the connection ends",
        arguments: ["G", "GET /public/a HT", "GET /public/a HTTP/1.1\r\n", "GET /public/a HTTP/1.1\r\nHost: a\r\nX: "])
    func slowHead(start: String) async throws {
        try await GatewaySetup([.request]).configuration { $0.timeouts.header = .seconds(1) }.run { gateway in
            let client = try await gateway.client()
            let response = try await client.exchange(start)
            #expect(response.status == 408)
            #expect(response.code == "request_timeout")
            #expect(response["Connection"] == "close")
            try await client.closed()
            #expect(gateway.upstream.connections.isEmpty)
        }
    }

    @Test("Bytes that arrive one by one do not extend the timeout")
    func trickle() async throws {
        try await GatewaySetup([.request]).configuration { $0.timeouts.header = .seconds(1) }.run { gateway in
            let client = try await gateway.client()
            client.send("GET /public/a HTTP/1.1\r\nX: ")
            let trickle = Task {
                while !Task.isCancelled {
                    try await client.stream(ByteBuffer(string: "x"), times: 1)
                    try await Task.sleep(for: .milliseconds(20))
                }
            }
            #expect(try await client.response().status == 408)
            trickle.cancel()
            try await client.closed()
            _ = await trickle.result
        }
    }

    @Test("The second request head of a connection has the same timeout")
    func slowSecondHead() async throws {
        try await GatewaySetup([.request, .send(Reply.ok)])
            .configuration { $0.timeouts.header = .seconds(2) }
            .run { gateway in
                let client = try await gateway.client()
                #expect(try await client.exchange(Ask.get()).text == "ok")
                #expect(try await client.exchange("GET /public/b HTTP/1.1\r\n").status == 408)
                try await client.closed()
                #expect(gateway.upstream.requests.count == 1)
            }
    }

    @Test("A body that stalls is 408, and the upstream connection is closed")
    func bodyStalls() async throws {
        try await GatewaySetup([.head, .wait(Gate())])
            .configuration {
                $0.timeouts.bodyIdle = .milliseconds(150)
                $0.limits.requestBuffer = 0
            }
            .run { gateway in
                let client = try await gateway.client()
                let response = try await client.exchange(
                    "POST /public/a HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf")
                #expect(response.status == 408)
                #expect(response["Connection"] == "close")
                try await client.closed()
                try await gateway.upstream.closed()
            }
    }

    @Test("A body for an account endpoint that stalls is 408")
    func ownBodyStalls() async throws {
        try await GatewaySetup().configuration { $0.timeouts.bodyIdle = .milliseconds(150) }.run { gateway in
            let client = try await gateway.client()
            let response = try await client.exchange("POST /auth HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf")
            #expect(response.status == 408)
            try await client.closed()
        }
    }

    @Test("An idle connection is closed without a response (RFC 9112 §9.5)", arguments: [true, false])
    func idle(hasAsked: Bool) async throws {
        try await GatewaySetup([.request, .send(Reply.ok)])
            // Long enough to send a request, also on a slow machine.
            .configuration { $0.timeouts.keepAlive = .milliseconds(hasAsked ? 2_000 : 150) }
            .run { gateway in
                let client = try await gateway.client()
                if hasAsked { #expect(try await client.exchange(Ask.get()).text == "ok") }
                try await client.closed()
                #expect(client.unread.isEmpty)
            }
    }
}
