import CloakroomCore
import NIOCore
import NIOHTTP2
import TestSupport
import Testing

/// A frame on a stream in some state, and the permitted reactions.
struct StateCase: Sendable, CustomTestStringConvertible {
    enum State: String, Sendable, CaseIterable {
        case halfClosed = "half-closed (remote)"
        case ended = "closed by END_STREAM of both sides"
        case resetByGateway = "closed by a reset of the gateway"
        case resetByClient = "closed by a reset of the client"
        case skipped = "closed because a higher stream was opened"
    }

    enum Reaction: Sendable {
        case ignored
        case streamError(HTTP2ErrorCode)
        case connectionError(HTTP2ErrorCode)
    }

    var state: State
    var name: String
    var frame: HTTP2WireFrame
    var permitted: [Reaction]
    var testDescription: String { "\(name) on a stream \(state.rawValue)" }

    init(_ state: State, _ name: String, _ frame: HTTP2WireFrame, _ permitted: Reaction...) {
        self.state = state
        self.name = name
        self.frame = frame
        self.permitted = permitted
    }
}

@Suite("Frames on streams that are closed or half-closed (RFC 9113 §5.1)", .serialized)
struct HTTP2StreamStateTests {
    /// The stream of the cases.
    private static let id: UInt32 = 3
    private static let data = HTTP2WireFrame.data(id, "a")
    private static let empty = HTTP2WireFrame.data(id, ends: true)
    private static let trailers = HTTP2WireFrame.headers(id, HTTP2Fields([("x-sum", "a")]))
    private static let request = HTTP2WireFrame.headers(id, .get())
    private static let reset = HTTP2WireFrame.reset(id)
    private static let window = HTTP2WireFrame.windowUpdate(id, 100)
    private static let priority = HTTP2WireFrame.priority(id, dependsOn: 0)

    private static let cases: [StateCase] = [
        // "If an endpoint receives additional frames, other than WINDOW_UPDATE, PRIORITY, or RST_STREAM, for a stream
        // that is in this state, it MUST respond with a stream error of type STREAM_CLOSED."
        StateCase(.halfClosed, "DATA", data, .streamError(.streamClosed), .connectionError(.streamClosed)),
        StateCase(.halfClosed, "empty DATA", empty, .streamError(.streamClosed), .connectionError(.streamClosed)),
        StateCase(.halfClosed, "trailers", trailers, .streamError(.streamClosed), .connectionError(.streamClosed)),
        StateCase(.halfClosed, "a request", request, .streamError(.streamClosed), .connectionError(.streamClosed)),
        StateCase(.halfClosed, "WINDOW_UPDATE", window, .ignored),
        StateCase(.halfClosed, "PRIORITY", priority, .ignored),
        StateCase(.halfClosed, "RST_STREAM", reset, .ignored),

        StateCase(.ended, "DATA", data, .streamError(.streamClosed), .connectionError(.streamClosed)),
        StateCase(.ended, "empty DATA", empty, .streamError(.streamClosed), .connectionError(.streamClosed)),
        StateCase(.ended, "trailers", trailers, .streamError(.streamClosed), .connectionError(.streamClosed)),
        StateCase(.ended, "a request", request, .streamError(.streamClosed), .connectionError(.streamClosed)),
        // "An endpoint MUST be prepared to receive [these] for a short period."
        StateCase(.ended, "WINDOW_UPDATE", window, .ignored),
        StateCase(.ended, "PRIORITY", priority, .ignored),
        StateCase(.ended, "RST_STREAM", reset, .ignored),

        // "After sending the RST_STREAM, the sending endpoint MUST be prepared to receive any frames that were sent by
        // the peer prior to the arrival of the RST_STREAM."
        StateCase(.resetByGateway, "DATA", data, .ignored),
        StateCase(.resetByGateway, "DATA with END_STREAM", empty, .ignored),
        StateCase(.resetByGateway, "trailers", trailers, .ignored),
        StateCase(.resetByGateway, "WINDOW_UPDATE", window, .ignored),
        StateCase(.resetByGateway, "PRIORITY", priority, .ignored),
        StateCase(.resetByGateway, "RST_STREAM", reset, .ignored),

        StateCase(.resetByClient, "DATA", data, .streamError(.streamClosed), .connectionError(.streamClosed)),
        StateCase(.resetByClient, "trailers", trailers, .streamError(.streamClosed), .connectionError(.streamClosed)),
        StateCase(
            .resetByClient, "a request", request, .streamError(.streamClosed), .connectionError(.streamClosed)),
        StateCase(
            .resetByClient, "WINDOW_UPDATE", window, .ignored, .streamError(.streamClosed),
            .connectionError(.streamClosed)),
        StateCase(.resetByClient, "PRIORITY", priority, .ignored),
        StateCase(
            .resetByClient, "RST_STREAM", reset, .ignored, .streamError(.streamClosed), .connectionError(.streamClosed)),

        // §5.1.1: "An endpoint that receives an unexpected stream identifier MUST respond with a connection error of
        // type PROTOCOL_ERROR."
        StateCase(.skipped, "a request", request, .connectionError(.protocolError), .connectionError(.streamClosed)),
        StateCase(
            .skipped, "DATA", data, .streamError(.streamClosed), .connectionError(.streamClosed),
            .connectionError(.protocolError)),
        StateCase(.skipped, "PRIORITY", priority, .ignored),
    ]

    /// Brings the stream into a state.
    private static func enter(_ state: StateCase.State, _ client: HTTP2Client, _ gateway: RunningGateway) async throws {
        switch state {
        case .halfClosed:
            client.send(.headers(id, .get("/public/held")))
            _ = try await gateway.upstream.request()
        case .ended:
            #expect(try await client.exchange(id, .get("/nowhere")).status == 404)
        case .resetByGateway:
            client.send(.headers(id, .post("/public/a", ("content-length", "100000")), ends: false))
            #expect(try await client.reset(id) == .noError)
        case .resetByClient:
            client.send(.headers(id, .post("/public/held"), ends: false), .reset(id))
        case .skipped:
            #expect(try await client.exchange(id + 2, .get("/nowhere")).status == 404)
        }
        try await client.settle()
    }

    @Test("Get the reaction that the state requires; the HPACK table stays right", arguments: cases)
    func reaction(_ test: StateCase) async throws {
        try await GatewaySetup([.request]).http2 { $0.limits.body = 1_000 }.run { gateway in
            let client = try await gateway.http2()
            try await Self.enter(test.state, client, gateway)
            let resets = client.frames(of: Self.id).filter { $0.type == 3 }.count
            let sections = client.stream(Self.id).sections.count
            client.send(test.frame)
            if !client.isClosed { try? await client.settle() }
            let newResets = client.frames(of: Self.id).filter { $0.type == 3 }.count - resets
            let fatal = client.goAways.first { $0.code != .noError }?.code
            let isPermitted = test.permitted.contains { reaction in
                switch reaction {
                case .ignored: newResets == 0 && fatal == nil && !client.isClosed
                case .streamError(let code): newResets == 1 && client.stream(Self.id).reset == code && fatal == nil
                case .connectionError(let code): fatal == code
                }
            }
            let seen = "\(newResets) resets, \(String(describing: client.stream(Self.id).reset)), \(client.goAways)"
            #expect(isPermitted, "\(seen)")
            #expect(client.stream(Self.id).sections.count == sections)
            if fatal == nil {
                #expect(try await client.exchange(101, .get("/nowhere")).status == 404)
            }
            #expect(try await gateway.serves())
        }
    }

    @Test("Fields of a trailer section on a stream that the gateway has reset are entries of the table (RFC 9113 §4.3)")
    func tableAfterReset() async throws {
        let early = "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno"
        let setup = GatewaySetup([.head, .send(early)], [.request, .send(Reply.ok), .again])
        try await setup.http2 { $0.limits.requestBuffer = 0 }.run { gateway in
            let client = try await gateway.http2()
            let encoder = HTTP2TestEncoder()
            client.send(.headers(1, .post(), ends: false), .data(1, "some of it"))
            #expect(try await client.reset(1) == .noError)
            client.sendSection(1, block: try encoder.block([("x-sum", "late")]))
            client.sendSection(3, block: try encoder.get("/public/a", [("x-sum", "late")]))
            #expect(try await client.response(3).text == "ok")
            #expect(gateway.upstream.requests.last?["X-Sum"] == "late")
            #expect(client.goAways.isEmpty)
        }
    }

    @Test("A stream that ended long ago is closed too: frames on it are errors or are ignored, and never a new request")
    func longAgo() async throws {
        try await GatewaySetup([.request, .send(Reply.ok), .again]).http2().run { gateway in
            for frame in [
                HTTP2WireFrame.headers(1, .get()), .data(1, "a"), .windowUpdate(1, 1), .reset(1), .priority(1),
            ] {
                let client = try await gateway.http2()
                for index in 0..<600 {
                    #expect(try await client.exchange(UInt32(2 * index + 1), .get("/nowhere")).status == 404)
                }
                client.send(frame)
                if !client.isClosed { try? await client.settle() }
                #expect(client.stream(1).sections.count == 1)
                #expect(client.goAways.allSatisfy { $0.code == .streamClosed || $0.code == .protocolError })
                try await client.close()
            }
            #expect(gateway.upstream.requests.isEmpty)
        }
    }
}
