import CloakroomProxy
import NIOCore
import TestSupport
import Testing

@testable import CloakroomCore

/// One failure ejects a target. The second target is selected only if the first one is not: its tier is higher.
@Suite("What counts against a target", .serialized)
struct TargetOutcomeTests {
    private static func run(
        _ first: [ScriptedUpstream.Step], _ body: (RunningGateway, _ second: ScriptedUpstream) async throws -> Void
    ) async throws {
        try await ScriptedUpstream.run([[.request, .send(Reply.ok), .again]]) { port, second in
            let other = UpstreamTargetConfiguration(HostAndPort(host: "127.0.0.1", port: port))
            try await GatewaySetup(first).configuration {
                $0.upstreams[0].targets.append(other)
                $0.upstreams[0].targets[1].tier = 1
                $0.upstreams[0].eject = EjectionConfiguration(consecutive: 1, share: 0)
            }
            .run { gateway in try await body(gateway, second) }
        }
    }

    private static func condition(_ gateway: RunningGateway) -> TargetCondition {
        gateway.server.upstreamStatus()[0].targets[0].condition
    }

    @Test(
        "A streamed response is judged by its head: that it breaks off is no failure, and it is not sent again",
        arguments: ["Content-Length: 10\r\n\r\nabc", "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"])
    func brokenBody(response: String) async throws {
        let first: [ScriptedUpstream.Step] = [.request, .send("HTTP/1.1 200 OK\r\n\(response)"), .close]
        try await Self.run(first) { gateway, second in
            for count in 1...3 {
                let client = try await gateway.client()
                await #expect(throws: ResponseTruncated.self) { try await client.exchange(Ask.get()) }
                expect(gateway.upstream.requests.count, equals: count)
            }
            expect(empty: second.requests)
            expect(Self.condition(gateway), equals: .up)
        }
    }

    @Test("An invalid body after a valid head is no failure of the target, whether or not the client gets the head")
    func invalidBody() async throws {
        let first: [ScriptedUpstream.Step] = [
            .request, .send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nno length\r\n"), .close,
        ]
        try await Self.run(first) { gateway, second in
            for count in 1...3 {
                let client = try await gateway.client()
                let response = try? await client.exchange(Ask.get())
                expect(response?.status != 200)
                expect(gateway.upstream.requests.count, equals: count)
            }
            expect(empty: second.requests)
            expect(Self.condition(gateway), equals: .up)
        }
    }

    @Test("A status of eject.statuses is a failure at once, while the body of the response is still being sent")
    func status() async throws {
        let gate = Gate()
        let first: [ScriptedUpstream.Step] = [
            .request, .send("HTTP/1.1 503 Service Unavailable\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n"),
            .wait(gate), .send("0\r\n\r\n"), .again,
        ]
        try await Self.run(first) { gateway, second in
            let client = try await gateway.client(sending: Ask.get())
            try await eventually("the ejection") { Self.condition(gateway) == .ejected }
            try await expect(gateway.client().exchange(Ask.get()).text, equals: "ok")
            expect(second.requests.count, equals: 1)
            gate.open()
            let response = try await client.response()
            expect(response.status == 503 && response.text == "no")
        }
    }

    @Test(
        "A connection that is reset before the response head is a failure, and so is an invalid response",
        arguments: [.close, .send("no response\r\n\r\n")] as [ScriptedUpstream.Step])
    func noResponse(step: ScriptedUpstream.Step) async throws {
        try await Self.run([.request, step]) { gateway, second in
            // A POST is not sent again.
            let failed = try await gateway.client().exchange(Ask.post())
            expect(failed.status, equals: 502)
            try await expect(gateway.client().exchange(Ask.get()).text, equals: "ok")
            expect(gateway.upstream.requests.count, equals: 1)
            expect(second.requests.count, equals: 1)
            expect(Self.condition(gateway), equals: .ejected)
        }
    }
}
