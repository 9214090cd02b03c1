import CloakroomCore
import TestSupport
import Testing

@Suite("Slow clients (RFC 9110 §15.5.9)", .serialized)
struct TimeoutTests {
    @Test(
        "A request head that is not complete in time is 408, and the connection ends",
        arguments: ["G", "GET /public/a HT", "GET /public/a HTTP/1.1\r\n", "GET /public/a HTTP/1.1\r\nHost: a\r\nX: "])
    func slowHead(start: String) async throws {
        try await GatewaySetup([.request]).steppedTime().configuration { $0.timeouts.header = .seconds(10) }.run {
            gateway, client in
            client.send(start)
            try await gateway.advance(.milliseconds(9_900))
            expect(client.unread.isEmpty && !client.isClosed)
            try await gateway.advance(.milliseconds(200))
            let response = try await client.response()
            expect(response.problem, equals: "408 request_timeout")
            expect(response["Connection"], equals: "close")
            try await client.closed()
            expect(empty: gateway.upstream.connections)
        }
    }

    @Test("Each part of a response extends the timeout of its body")
    func partsOfResponse() async throws {
        let gates = [Gate(), Gate()]
        try await GatewaySetup([
            .request, .send("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\na"), .wait(gates[0]), .send("b"),
            .wait(gates[1]), .send("c"),
        ])
        .steppedTime().configuration { $0.timeouts.bodyIdle = .seconds(10) }.run { gateway, client in
            client.send(Ask.get())
            for (gate, part) in zip(gates, ["a", "b"]) {
                try await eventually("the part \(part)") { client.unread.hasSuffix(part) }
                try await gateway.advance(.seconds(6))
                gate.open()
            }
            try await expect(client.response().text, equals: "abc")
        }
    }

    @Test("Bytes that arrive one by one do not extend the timeout")
    func trickle() async throws {
        try await GatewaySetup([.request]).steppedTime().configuration { $0.timeouts.header = .seconds(10) }.run {
            gateway, client in
            client.send("GET /public/a HTTP/1.1\r\nX: ")
            for _ in 0..<33 {
                try await gateway.advance(.milliseconds(300))
                client.send("x")
            }
            expect(client.unread.isEmpty && !client.isClosed)
            try await gateway.advance(.milliseconds(300))
            try await expect(client.response().status, equals: 408)
            try await client.closed()
        }
    }

    @Test("The second request head of a connection has the same timeout")
    func slowSecondHead() async throws {
        try await GatewaySetup([.request, .send(Reply.ok)])
            .steppedTime()
            .configuration { $0.timeouts.header = .seconds(10) }
            .run { gateway, client in
                try await expect(client.exchange(Ask.get()).text, equals: "ok")
                // Not counted from the connection's beginning.
                try await gateway.advance(.seconds(9))
                client.send("GET /public/b HTTP/1.1\r\n")
                try await gateway.advance(.milliseconds(9_900))
                expect(client.unread.isEmpty && !client.isClosed)
                try await gateway.advance(.milliseconds(200))
                try await expect(client.response().status, equals: 408)
                try await client.closed()
                expect(gateway.upstream.requests.count, equals: 1)
            }
    }

    @Test("A body that stalls is 408, and the upstream connection is closed")
    func bodyStalls() async throws {
        try await GatewaySetup([.head, .wait(Gate())])
            .steppedTime()
            .configuration {
                $0.timeouts.bodyIdle = .seconds(15)
                $0.limits.requestBuffer = 0
            }
            .run { gateway, client in
                client.send("POST /public/a HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf")
                _ = try await gateway.upstream.request()
                try await gateway.advance(.milliseconds(14_900))
                expect(empty: client.unread)
                try await gateway.advance(.milliseconds(200))
                let response = try await client.response()
                expect(response.status, equals: 408)
                expect(response["Connection"], equals: "close")
                try await client.closed()
                try await gateway.upstream.closed()
            }
    }

    @Test("A body for an account endpoint that stalls is 408")
    func ownBodyStalls() async throws {
        try await GatewaySetup().steppedTime().configuration { $0.timeouts.bodyIdle = .seconds(15) }.run {
            gateway, client in
            client.send("POST /auth HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf")
            try await gateway.advance(.milliseconds(14_900))
            expect(empty: client.unread)
            try await gateway.advance(.milliseconds(200))
            try await expect(client.response().status, equals: 408)
            try await client.closed()
        }
    }

    @Test("An idle connection is closed without a response (RFC 9112 §9.5)", arguments: [true, false])
    func idle(hasAsked: Bool) async throws {
        try await GatewaySetup([.request, .send(Reply.ok)])
            .steppedTime()
            .configuration { $0.timeouts.keepAlive = .seconds(60) }
            .run { gateway, client in
                if hasAsked { try await expect(client.exchange(Ask.get()).text, equals: "ok") }
                try await gateway.advance(.seconds(59), inStepsOf: .seconds(1))
                expect(!client.isClosed)
                try await gateway.advance(.seconds(2), inStepsOf: .seconds(1))
                try await client.closed()
                expect(empty: client.unread)
            }
    }
}
