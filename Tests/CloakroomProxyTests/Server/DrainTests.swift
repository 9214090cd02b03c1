import CloakroomCore
import CloakroomProxy
import TestSupport
import Testing

@Suite("A gateway that shuts down (RFC 9112 §9.6)", .serialized)
struct DrainTests {
    /// Begins a drain, and waits until a connection has noticed it.
    private static func drain(_ gateway: RunningGateway) async throws {
        let probe = try await gateway.client()
        try await expect(probe.exchange(Ask.get("/nowhere")).status, equals: 404)
        await gateway.beginDrain()
        try await eventually("the drain") { try await probe.exchange(Ask.get("/nowhere"))["Connection"] == "close" }
        try? await probe.close()
    }

    @Test("For 1 s a connection that waits for a request is served one more, whether it has sent one before or not")
    func idle() async throws {
        try await GatewaySetup.serving.steppedTime().run { gateway in
            let used = try await [gateway.client(), gateway.client()]
            for client in used { try await expect(client.exchange(Ask.get()).text, equals: "ok") }
            let unused = try await [gateway.client(), gateway.client()]
            // Connections are accepted in order: a later one proves that these are registered.
            let probe = try await gateway.client()
            try await expect(probe.exchange(Ask.get()).text, equals: "ok")
            await gateway.beginDrain()
            try await eventually("the drain") { try await probe.exchange(Ask.get())["Connection"] == "close" }
            for client in [used[0], unused[0]] {
                let response = try await client.exchange(Ask.get())
                expect(response.text, equals: "ok")
                expect(response["Connection"], equals: "close")
                try await client.inputEnded()
                try? await client.close()
            }
            try? await probe.close()
            try await gateway.advance(.milliseconds(900))
            expect(!used[1].hasInputEnded && !unused[1].hasInputEnded)
            for client in [used[1], unused[1]] { try? await client.close() }
            try await gateway.stopped()
            try await eventually("the upstream connections to close") {
                gateway.upstream.connections.allSatisfy(\.isClosed)
            }
        }
    }

    @Test("A request whose head has begun gets a response")
    func startedHead() async throws {
        try await GatewaySetup.serving.run { gateway, client in
            // The second head begins in the same bytes as the first, so it is there when the first response is sent.
            try await expect(client.exchange(Ask.get() + "GET /public/b HTTP/1.1\r\n").text, equals: "ok")
            try await Self.drain(gateway)
            let response = try await client.exchange("Host: a\r\n\r\n")
            expect(response.text, equals: "ok")
            expect(response["Connection"], equals: "close")
            try await gateway.stopped()
        }
    }

    @Test("A response in progress is sent to its end; one more request is served, because its client knows of no end")
    func runningResponse() async throws {
        let gate = Gate()
        try await GatewaySetup(
            [.request, .send("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabc"), .wait(gate), .send("def")]
        ).steppedTime().run { gateway, client in
            client.send(Ask.get())
            try await eventually("the first half") { client.unread.hasSuffix("abc") }
            try await Self.drain(gateway)
            gate.open()
            let response = try await client.response()
            expect(response.text == "abcdef" && response["Connection"] == nil)
            try await expect(client.exchange(Ask.get("/nowhere"))["Connection"], equals: "close")
            try await client.inputEnded()
            try? await client.close()
            try await gateway.stopped()
        }
    }

    @Test("Exchanges that do not finish within the drain limit are aborted")
    func limit() async throws {
        try await GatewaySetup([.request]).configuration { $0.timeouts.drain = .milliseconds(200) }.run { gateway in
            let client = try await gateway.client(sending: Ask.get())
            _ = try await gateway.upstream.request()
            await gateway.beginDrain()
            try await client.closed()
            expect(empty: client.unread)
            try await gateway.stopped()
            try await gateway.upstream.closed()
        }
    }

    @Test("Two listeners of one gateway do not share an address")
    func sameAddressTwice() async throws {
        // A port that was free shortly before.
        let port = try await GatewaySetup().run(\.port)
        let setup = GatewaySetup().configuration { configuration in
            configuration.listeners = ["127.0.0.1", "127.0.0.1"].map {
                ListenerConfiguration(address: HostAndPort(host: $0, port: port))
            }
        }
        let error = await #expect(throws: ListenerError.self) { try await setup.run { _ in } }
        expect(error?.description.contains("address already in use"), equals: true)
    }
}
