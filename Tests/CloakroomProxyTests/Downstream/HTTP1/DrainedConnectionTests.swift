import CloakroomCore
import NIOCore
import TestSupport
import Testing

@Suite("HTTP/1.1 connections during a drain (RFC 9112 §9.6)", .serialized)
struct DrainedConnectionTests {
    /// Begins a drain, and waits until an idle connection has noticed it.
    private static func drain(_ gateway: RunningGateway) async throws {
        let idle = try await gateway.client()
        #expect(try await idle.exchange(Ask.get("/nowhere")).status == 404)
        await gateway.beginDrain()
        try await idle.closed()
        #expect(idle.unread.isEmpty)
    }

    @Test(
        "Of pipelined requests the one in progress is the last, and its response has Connection: close (RFC 9112 §9.6)")
    func pipelined() async throws {
        try await Tunnel.gateway { gateway, server in
            let client = try await gateway.client()
            client.send(Ask.get("/public/1") + Ask.get("/public/2"))
            let upstream = try await server.peer()
            _ = try await upstream.head()
            try await Self.drain(gateway)
            upstream.send(Reply.ok)
            let response = try await client.response()
            #expect(response.text == "ok")
            #expect(response["Connection"] == "close")
            try await client.closed()
            // The second was not started: it is safe to send again (RFC 9112 §9.3.1).
            #expect(upstream.unread.isEmpty)
            #expect(client.unread.isEmpty)
            try await gateway.stopped()
        }
    }

    @Test("An upload in progress is read to its end and gets a response (RFC 9112 §9.6)")
    func upload() async throws {
        try await Tunnel.gateway { gateway, server in
            let client = try await gateway.client()
            client.send("POST /public/a HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc")
            let upstream = try await server.peer()
            _ = try await upstream.head()
            try await Self.drain(gateway)
            client.send("def")
            #expect(try await upstream.text(6) == "abcdef")
            upstream.send(Reply.ok)
            let response = try await client.response()
            #expect(response.text == "ok")
            #expect(response["Connection"] == "close")
            try await client.closed()
            try await gateway.stopped()
        }
    }

    @Test("A client that retries requests lost on idle connections loses none (RFC 9110 §9.2.2)")
    func retrying() async throws {
        try await GatewaySetup([.request, .send(Reply.ok), .again]).run { gateway in
            try await withThrowingTaskGroup(of: Int.self) { group in
                let started = Gate()
                for _ in 0..<8 {
                    group.addTask {
                        let client = try await gateway.client()
                        var count = 0
                        while true {
                            // An idle connection may be closed at any time; a response that has begun is complete.
                            client.send(Ask.get())
                            do {
                                let response = try await client.response()
                                #expect(response.text == "ok")
                                count += 1
                                if count == 20 { started.open() }
                                if response["Connection"] == "close" { return count }
                            } catch let cut as ResponseTruncated {
                                #expect(cut.response == nil)
                                #expect(client.unread.isEmpty)
                                return count
                            }
                        }
                    }
                }
                await started.passed()
                await gateway.beginDrain()
                for try await count in group { #expect(count > 0) }
            }
            try await gateway.stopped()
        }
    }
}
