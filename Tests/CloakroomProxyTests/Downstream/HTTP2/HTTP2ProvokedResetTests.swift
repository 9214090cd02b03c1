import CloakroomCore
import NIOCore
import NIOHTTP2
import TestSupport
import Testing

/// A way to make the gateway reset a stream that it has begun to serve (CVE-2025-8671).
struct Provocation: Sendable, CustomTestStringConvertible {
    var testDescription: String
    /// A connection error that is permitted instead of ENHANCE_YOUR_CALM.
    var ownCode: HTTP2ErrorCode?
    /// Frames of the request that the gateway may forward before the others arrive.
    var first: @Sendable (_ stream: UInt32) -> [HTTP2WireFrame] = { _ in [] }
    var frames: @Sendable (_ stream: UInt32) -> [HTTP2WireFrame]

    init(_ name: String, frames: @escaping @Sendable (_ stream: UInt32) -> [HTTP2WireFrame]) {
        testDescription = name
        self.frames = frames
    }

    /// A provocation after the gateway had time to forward the request.
    init(
        _ name: String, _ request: HTTP2Fields, _ ownCode: HTTP2ErrorCode? = nil,
        frames: @escaping @Sendable (_ stream: UInt32) -> [HTTP2WireFrame]
    ) {
        self.init(name, frames: frames)
        self.ownCode = ownCode
        first = { [.headers($0, request, ends: false)] }
    }

    /// Provokes the resets of ten requests at a time, until the connection ends.
    func run() async throws {
        // The upstream never responds, so each forwarded request takes a connection of its own.
        try await GatewaySetup([.head]).runHTTP2 { gateway, client in
            try await eventually("settings") { !client.settings.isEmpty }
            var stream: UInt32 = 1
            while !client.isClosed, stream < 800 {
                let batch = (0..<10).map { stream + 2 * $0 }
                let requests = batch.flatMap(first)
                if !requests.isEmpty {
                    client.send(requests)
                    try await Task.sleep(for: .milliseconds(20))
                }
                client.send(batch.flatMap(frames))
                stream += 20
                try await eventually("the end of ten streams") {
                    client.isClosed || batch.allSatisfy { client.stream($0).isOver }
                }
                if stream == 201 { try await expect(gateway.servesSoon()) }
            }
            expect(client.isClosed)
            let code = client.goAways.first { $0.code != .noError }?.code
            expect(code == .enhanceYourCalm || code != nil && code == ownCode, "\(client.goAways)")
            try await expect(gateway.servesSoon())
            #expect(gateway.upstream.connections.count < 50)
        }
    }
}

@Suite("Streams that the client makes the gateway reset, or resets itself", .serialized)
struct HTTP2ProvokedResetTests {
    private static let five = HTTP2Fields.post("/public/a", ("content-length", "5"))

    @Test(
        "Rule 56, CVE-2025-8671: a connection with provoked resets ends before 400, and the upstream gets less than 50",
        arguments: [
            Provocation("content-length 5 with 6 bytes of DATA") {
                [.headers($0, five, ends: false), .data($0, "hello!")]
            },
            Provocation("content-length 5 with 4 bytes of DATA") {
                [.headers($0, five, ends: false), .data($0, "hell", ends: true)]
            },
            Provocation("content-length 5 with END_STREAM on HEADERS") { [.headers($0, five)] },
            Provocation("content-length 5 with trailers after 4 bytes") {
                [.headers($0, five, ends: false), .data($0, "hell"), .headers($0, HTTP2Fields([("x-sum", "a")]))]
            },
            Provocation("malformed trailers") {
                [.headers($0, .post(), ends: false), .data($0, "hell"), .headers($0, HTTP2Fields([(":path", "/a")]))]
            },
            Provocation("WINDOW_UPDATE of 0") { [.headers($0, .get()), .windowUpdate($0, 0)] },
        ])
    func provoked(_ provocation: Provocation) async throws { try await provocation.run() }

    @Test(
        "Rule 56, CVE-2025-8671: the upstream gets less than 50 requests that are reset later",
        arguments: [
            Provocation("malformed trailers", .post(), .protocolError) {
                [.headers($0, HTTP2Fields([(":path", "/a")]))]
            },
            Provocation("WINDOW_UPDATE of 0", .post()) { [.windowUpdate($0, 0)] },
        ])
    func provokedLater(_ provocation: Provocation) async throws { try await provocation.run() }

    @Test(
        "Rule 56, CVE-2025-8671: nor of requests with a body of another length than declared, however they are sent",
        arguments: [
            HTTP2Fields.post("/public/a", ("content-length", "0")), five,
            .post("/public/a", ("content-length", "5"), ("expect", "100-continue")),
        ])
    func wrongLength(request: HTTP2Fields) async throws {
        try await Provocation("6 bytes", request) { [.data($0, "hello!")] }.run()
    }

    @Test(
        "Rule 56, CVE-2023-44487: HEADERS and RST_STREAM in one write never reach the upstream",
        arguments: [true, false])
    func cancelledAtOnce(hasBody: Bool) async throws {
        try await GatewaySetup.serving.runHTTP2 { gateway, client async throws in
            try await expect(client.exchange(1, .get()).text, equals: "ok")
            let frames = (0..<20).flatMap { index -> [HTTP2WireFrame] in
                let id = UInt32(2 * index + 3)
                return hasBody
                    ? [.headers(id, .post(), ends: false), .data(id, "hello", ends: true), .reset(id)]
                    : [.headers(id, .get()), .reset(id)]
            }
            client.send(frames)
            try await expect(client.exchange(101, .get("/public/last")).text, equals: "ok")
            expect(empty: client.goAways)
            expect(
                gateway.upstream.requests.map(\.line), equals: ["GET /public/a HTTP/1.1", "GET /public/last HTTP/1.1"])
            expect(gateway.upstream.connections.count, equals: 1)
        }
    }

    @Test(
        "Rule 56, CVE-2023-44487: a connection that resets its own streams ends before 2,000", arguments: [true, false])
    func rapid(isForwarded: Bool) async throws {
        try await GatewaySetup([.request]).runHTTP2 { gateway, client in
            try await client.settle()
            var stream: UInt32 = 1
            let fields = HTTP2Fields.get(isForwarded ? "/public/a" : "/nowhere")
            while !client.isClosed, stream < 20_000 {
                client.send((0..<10).flatMap { [.headers(stream + 2 * $0, fields), .reset(stream + 2 * $0)] })
                stream += 20
                try await Task.sleep(for: .milliseconds(2))
            }
            try await expect(client.error(), equals: .enhanceYourCalm)
            try await client.closed()
            #expect((client.goAways.last?.last ?? .max) < 4_000)
            try await expect(gateway.servesSoon())
            #expect(gateway.upstream.connections.count < 50)
        }
    }

    @Test("Rule 56, CVE-2023-44487: a connection cannot pay for its resets with local responses")
    func mixed() async throws {
        try await GatewaySetup([.request]).steppedTime().runHTTP2 { gateway, client in
            try await client.settle()
            var stream: UInt32 = 1
            while !client.isClosed, stream < 20_000 {
                let ids = (0..<10).map { stream + 4 * $0 }
                client.send(ids.flatMap { [.headers($0, .get()), .headers($0 + 2, .get("/nowhere"))] })
                stream += 40
                try await eventually("ten responses") {
                    client.isClosed || ids.allSatisfy { client.stream($0 + 2).isOver }
                }
                client.send(ids.map { .reset($0) })
            }
            try await expect(client.error(), equals: .enhanceYourCalm)
            #expect((client.goAways.last?.last ?? .max) < 4_000)
            try await expect(gateway.servesSoon())
        }
    }

    @Test("Rule 56: a declared body that never comes does not occupy the upstream beyond the body timeout")
    func missingBody() async throws {
        try await GatewaySetup([.head]).configuration { $0.timeouts.bodyIdle = .milliseconds(300) }.runHTTP2 {
            gateway, client in
            let ids = Array(stride(from: UInt32(1), to: 40, by: 2))
            client.send(ids.map { .headers($0, Self.five, ends: false) })
            for id in ids { try await expect(client.response(id).status, equals: 408) }
            try await eventually("no open upstream connection") {
                gateway.upstream.connections.allSatisfy(\.isClosed)
            }
            try await expect(client.exchange(101, .get("/nowhere")).status, equals: 404)
        }
    }
}
