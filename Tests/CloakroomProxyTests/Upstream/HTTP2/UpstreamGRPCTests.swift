import CloakroomCore
import NIOCore
import NIOHPACK
import NIOHTTP2
import Synchronization
import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("gRPC calls", .serialized)
struct UpstreamGRPCTests {
    private static let call = ("content-type", "application/grpc")

    private func setup(
        _ adjust: @escaping @Sendable (inout GatewayConfiguration) -> Void = { _ in }
    ) -> GatewaySetup {
        GatewaySetup().http2().configuration { configuration in
            for index in configuration.routes.indices { configuration.routes[index].grpc = true }
            adjust(&configuration)
        }
    }

    private func fields(_ response: HTTP2TestResponse, _ names: String...) -> [String?] {
        names.map { name in (response.head?[name].first) ?? response.trailers?[name].first }
    }

    @Test("All four kinds of call: messages and trailers pass in both directions as they arrive")
    func streaming() async throws {
        let script: FrameServer.Script = { link, event in
            switch event {
            case .headers(let id, _, ends: false):
                link.send(.headers(id, HTTP2Fields([(":status", "200"), Self.call]), ends: false))
            case .data(let id, let count, let ends):
                if count > 0 { link.send(.data(id, "echo \(count)")) }
                if ends { link.send(.headers(id, HTTP2Fields([("grpc-status", "0"), ("grpc-message", "fine")]))) }
            default: break
            }
        }
        try await setup().run(against: script) { gateway, server in
            let client = try await gateway.http2()
            client.send(.headers(1, .post("/public/m", Self.call, ("te", "trailers")), ends: false))
            try await eventually("the head") { client.stream(1).status == 200 }
            for count in 1...3 {
                client.send(.data(1, String(repeating: "a", count: count)))
                try await eventually("message \(count)") { client.stream(1).text.hasSuffix("echo \(count)") }
            }
            client.send(.data(1, "", ends: true))
            let response = try await client.response(1)
            expect(response.trailers?.map { "\($0.name)=\($0.value)" }, equals: ["grpc-status=0", "grpc-message=fine"])
            expect(server.requests.first?.head["te"], equals: ["trailers"])
        }
    }

    @Test("A response of trailers only stays one")
    func trailersOnly() async throws {
        let script: FrameServer.Script = { link, event in
            guard case .headers(let id, _, ends: true) = event else { return }
            link.send(.headers(id, HTTP2Fields([(":status", "200"), Self.call, ("grpc-status", "5")])))
        }
        try await setup().run(against: script) { gateway, _ in
            let response = try await gateway.http2().exchange(1, .post("/public/m", Self.call))
            expect(response.endedWithFields)
            expect(response.sections.count, equals: 1)
            expect(fields(response, "grpc-status", "content-length"), equals: ["5", nil])
        }
    }

    @Test("Problems of the gateway are statuses of gRPC, without a body")
    func localResponses() async throws {
        let script: FrameServer.Script = { link, event in
            guard case .headers(let id, let head, ends: true) = event else { return }
            if head.first(name: ":path") == "/public/reset" { link.send(.reset(id, .internalError)) }
        }
        try await setup().run(against: script) { gateway, _ in
            let client = try await gateway.http2()
            var id: UInt32 = 1
            for (path, status) in [("/private/m", "16"), ("/nowhere", "12"), ("/public/reset", "14")] {
                let response = try await client.exchange(id, .post(path, Self.call))
                expect(response.status, equals: 200)
                expect(response.endedWithFields)
                expect(fields(response, "grpc-status", "content-type"), equals: [status, "application/grpc"])
                expect(response["grpc-message"]?.isEmpty, equals: false)
                expect(response["cache-control"], equals: "no-store")
                id += 2
            }
            // Other clients get problem documents, also for a request that only claims to be a call: a cache would store
            // its status 200.
            for request in [HTTP2Fields.get("/nowhere"), .get("/nowhere", Self.call)] {
                let response = try await client.exchange(id, request)
                expect(response.problem, equals: "404 not_found")
                expect(response["cache-control"], equals: "no-store")
                id += 2
            }
        }
    }

    @Test("The client's timeout ends a call that gets no response, and the stream to the upstream is reset")
    func timeout() async throws {
        try await setup().steppedTime().run(against: { _, _ in }) { gateway, server in
            let client = try await gateway.http2()
            client.send(.headers(1, .post("/public/m", Self.call, ("grpc-timeout", "4S"))))
            try await eventually("the call") { server.requests.count == 1 }
            try await gateway.advance(.milliseconds(3_900))
            expect(!client.stream(1).isOver)
            try await gateway.advance(.milliseconds(200))
            let response = try await client.response(1)
            expect(fields(response, "grpc-status"), equals: ["4"])
            try await eventually("the reset") { server.resets == [8] }
            // The next call on the stream object has no deadline of its own.
            client.send(.headers(3, .post("/public/m", Self.call)))
            try await eventually("the next call") { server.requests.count == 2 }
            try await gateway.advance(.seconds(20), inStepsOf: .seconds(1))
            expect(!client.stream(3).isOver)
        }
    }

    @Test("A longer timeout of the client does not extend the deadline of the route")
    func routeDeadline() async throws {
        try await setup() { $0.routes[0].deadline = .seconds(3) }.steppedTime().run(against: { _, _ in }) {
            gateway, server in
            let client = try await gateway.http2()
            client.send(.headers(1, .post("/public/m", Self.call, ("grpc-timeout", "10S"))))
            try await eventually("the call") { server.requests.count == 1 }
            try await gateway.advance(.milliseconds(2_900))
            expect(!client.stream(1).isOver)
            try await gateway.advance(.milliseconds(200))
            expect(fields(try await client.response(1), "grpc-status"), equals: ["4"])
        }
    }

    @Test("A timeout during the response resets the client's stream")
    func grpcTimeoutStillEndsTheCall() async throws {
        let script: FrameServer.Script = { link, event in
            guard case .headers(let id, _, ends: true) = event else { return }
            link.send(.headers(id, HTTP2Fields([(":status", "200"), Self.call]), ends: false), .data(id, "abc"))
        }
        try await setup().steppedTime().run(against: script) { gateway, server in
            let client = try await gateway.http2()
            client.send(.headers(1, .post("/public/m", Self.call, ("grpc-timeout", "4S"))))
            try await eventually("a part of the response") { client.stream(1).text == "abc" }
            try await gateway.advance(.milliseconds(3_900))
            expect(!client.stream(1).isOver)
            try await gateway.advance(.milliseconds(200))
            try await expect(client.reset(1) != nil)
            try await eventually("the reset") { server.resets == [8] }
        }
    }

    @Test("Messages may be further apart than the idle timeout of bodies")
    func quietCall() async throws {
        let script: FrameServer.Script = { link, event in
            guard case .headers(let id, _, _) = event else { return }
            link.send(.headers(id, HTTP2Fields([(":status", "200"), Self.call]), ends: false))
        }
        try await setup() { $0.timeouts.bodyIdle = .seconds(15) }.steppedTime().run(against: script) { gateway, _ in
            let client = try await gateway.http2()
            client.send(.headers(1, .post("/public/m", Self.call), ends: false))
            try await eventually("the head") { client.stream(1).status == 200 }
            try await gateway.advance(.seconds(60), inStepsOf: .seconds(1))
            expect(!client.stream(1).isOver)
        }
    }

    @Test("Messages of the client alone keep a call open")
    func clientMessages() async throws {
        let script: FrameServer.Script = { link, event in
            guard case .headers(let id, _, _) = event else { return }
            link.send(.headers(id, HTTP2Fields([(":status", "200"), Self.call]), ends: false))
        }
        try await setup() { $0.timeouts.tunnelIdle = .seconds(15) }.steppedTime().run(against: script) { gateway, _ in
            let client = try await gateway.http2()
            client.send(.headers(1, .post("/public/m", Self.call), ends: false))
            try await eventually("the head") { client.stream(1).status == 200 }
            for _ in 0..<3 {
                try await gateway.advance(.seconds(10))
                client.send(.data(1, "abc"))
                await gateway.settle()
            }
            expect(!client.stream(1).isOver)
            try await gateway.advance(.seconds(16))
            try await eventually("the end of the call") { client.stream(1).isOver }
        }
    }

    @Test("HTTP/1.1 clients cannot make calls: 505")
    func http1Client() async throws {
        try await setup().run(against: { _, _ in }) { gateway, server in
            let response = try await gateway.client().exchange(
                Ask.post("/public/m", "Content-Type: application/grpc"))
            expect(response.status, equals: 505)
            expect(empty: server.requests)
        }
    }
}
