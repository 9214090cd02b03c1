import CloakroomCore
import CloakroomProxy
import NIOCore
import NIOHPACK
import TestSupport
import Testing

/// One request, the response of an upstream, and what of both must arrive: the same for all HTTP versions.
struct FieldRule: Sendable, CustomTestStringConvertible {
    typealias Fields = [(String, String)]

    /// The versions of one hop.
    enum Version: Sendable, CaseIterable {
        case http1, http2
    }

    /// The versions of both hops.
    struct Versions: Sendable {
        var client: Version
        var upstream: Version

        static let all = Version.allCases.flatMap { client in
            Version.allCases.map { Versions(client: client, upstream: $0) }
        }
    }

    /// A message as received, with names in lower case.
    struct Message {
        var status: Int?
        var fields: Fields = []
        var body = ""
        var trailers: Fields = []
        var interim: [Fields] = []

        private var all: Fields { interim.flatMap(\.self) + fields + trailers }
        /// All values, and the status line of HTTP/1.1.
        var values: String { all.map(\.1).joined(separator: "\n") }
        /// Whether no field has one of these names.
        func lacks(_ names: String...) -> Bool { names.allSatisfy { name in !all.contains { $0.0 == name } } }
        subscript(_ name: String) -> [String] { fields.filter { $0.0 == name }.map(\.1) }
    }

    /// What arrived on both sides.
    struct Outcome {
        let client: Version
        let upstream: Version
        /// `nil` if the upstream received none.
        let request: Message?
        /// Without a status, if the stream was reset or the connection was closed.
        let response: Message
        /// Whether the client was rejected, and the upstream received nothing.
        var isRejected: Bool { request == nil && [nil, 400, 408, 417, 431].contains(response.status) }
    }

    let testDescription: String
    var path = "/private/a"
    var request: Fields = []
    var body = ""
    var requestTrailers: Fields = []
    var isSignedIn = true
    var status = 200
    var response: Fields = []
    var trailers: Fields = []
    /// The fields of an interim response; `nil` for none.
    var interim: Fields?
    /// Lines that the metrics contain at the end.
    var metrics: [String] = []
    var adjust: @Sendable (inout GatewayConfiguration) -> Void = { _ in }
    let check: @Sendable (Outcome) -> Void

    /// - Parameter check: Expects what has to arrive.
    init(
        _ description: String, _ adjustRule: (inout FieldRule) -> Void = { _ in },
        check: @escaping @Sendable (Outcome) -> Void
    ) {
        testDescription = description
        self.check = check
        adjustRule(&self)
    }

    /// - Parameter arrives: The values of fields of the response that the client receives, besides the body `ok`.
    init(_ description: String, arrives: [String: [String]], _ adjustRule: (inout FieldRule) -> Void) {
        self.init(description, adjustRule) { outcome in
            expect(outcome.response.body, equals: "ok")
            for (name, values) in arrives { expect(outcome.response[name], equals: values, "\(name)") }
        }
    }

    func run(_ versions: Versions) async throws {
        let (client, upstream) = (versions.client, versions.upstream)
        // A request is complete for the script before its trailers.
        let expected = Self.chunked(body, [("X-Sum", "1")]).utf8.count
        let request: [ScriptedUpstream.Step] = requestTrailers.isEmpty ? [.request] : [.head, .body(expected)]
        let setup = GatewaySetup(request + [.send(http1Response), .again]).http2()
            .configuration(adjust)
        func outcome(_ setup: GatewaySetup, _ request: (RunningGateway) -> Message?) async throws {
            try await setup.run { gateway in
                let response =
                    client == .http1 ? try await askHTTP1(gateway) : try await askHTTP2(gateway)
                check(
                    Outcome(
                        client: client, upstream: upstream, request: request(gateway), response: response))
                for metric in metrics { try await gateway.metric(metric) }
            }
        }
        guard upstream == .http2 else {
            return try await outcome(setup) { $0.upstream.requests.first.map(Self.message) }
        }
        try await FrameServer.run(script: http2Script) { port, server in
            try await outcome(setup.http2Upstream(port)) { _ in server.requests.first.map(Self.message) }
        }
    }

    // MARK: - The client

    private var method: String { body.isEmpty && requestTrailers.isEmpty ? "GET" : "POST" }

    private var cookieField: Fields { isSignedIn ? [("Cookie", Ask.cookieValue)] : [] }

    private func askHTTP1(_ gateway: RunningGateway) async throws -> Message {
        let framed = request.contains { ["content-length", "transfer-encoding"].contains($0.0.lowercased()) }
        var fields = [("Host", "gateway.test"), ("Connection", "TE, close"), ("TE", "trailers")]
        if !requestTrailers.isEmpty {
            fields.append(("Transfer-Encoding", "chunked"))
        } else if !body.isEmpty, !framed {
            fields.append(("Content-Length", "\(body.utf8.count)"))
        }
        var text = "\(method) \(path) HTTP/1.1\r\n" + Self.lines(fields + cookieField + request) + "\r\n"
        text += requestTrailers.isEmpty ? body : Self.chunked(body, requestTrailers)
        let client = try await RawPeer.connect(port: gateway.port, sending: text)
        return Self.parse(String(buffer: try await client.rest()))
    }

    private func askHTTP2(_ gateway: RunningGateway) async throws -> Message {
        let client = try await gateway.http2()
        var fields = HTTP2Fields.request(method, path, ("te", "trailers"))
        fields.lines += Self.http2(cookieField + request).lines
        client.send(.headers(1, fields, ends: method == "GET"))
        if method == "POST" {
            client.send(.data(1, body, ends: requestTrailers.isEmpty))
            if !requestTrailers.isEmpty { client.send(.headers(1, Self.http2(requestTrailers))) }
        }
        guard let response = try? await client.response(1), response.reset == nil || response.isEnded else {
            return Message()
        }
        var message = Message(status: response.status, fields: Self.fields(response.head), body: response.text)
        message.trailers = Self.fields(response.trailers)
        message.interim = response.sections.filter { $0.first(name: ":status")?.first == "1" }.map(Self.fields)
        return message
    }

    // MARK: - The upstream

    private var http1Response: String {
        let isChunked = !trailers.isEmpty
        let framed = response.contains { ["content-length", "transfer-encoding"].contains($0.0.lowercased()) }
        let framing = framed ? [] : [isChunked ? ("Transfer-Encoding", "chunked") : ("Content-Length", "2")]
        return (interim.map { "HTTP/1.1 103 Early Hints\r\n\(Self.lines($0))\r\n" } ?? "")
            + "HTTP/1.1 \(status) Fine\r\n\(Self.lines(response + framing))\r\n"
            + (isChunked ? Self.chunked("ok", trailers) : "ok")
    }

    private var http2Script: FrameServer.Script {
        { link, event in
            switch event {
            case .headers(let id, _, ends: true), .data(let id, _, ends: true):
                if let interim { link.send(.headers(id, Self.http2([(":status", "103")] + interim), ends: false)) }
                link.send(.headers(id, Self.http2([(":status", "\(status)")] + response), ends: false))
                link.send(.data(id, "ok", ends: trailers.isEmpty))
                if !trailers.isEmpty { link.send(.headers(id, Self.http2(trailers))) }
            default: break
            }
        }
    }

    // MARK: - Messages

    private static func message(_ request: ScriptedUpstream.Request) -> Message {
        var message = parse(request.head + "\r\n\r\n" + request.text)
        message.fields.append((":path", String(request.line.split(separator: " ")[1])))
        return message
    }

    private static func message(_ request: FrameServer.Request) -> Message {
        Message(
            fields: fields(request.head), body: String(decoding: request.body, as: UTF8.self),
            trailers: fields(request.trailers))
    }

    private static func lines(_ fields: Fields) -> String { fields.map { "\($0.0): \($0.1)\r\n" }.joined() }

    private static func chunked(_ body: String, _ trailers: Fields) -> String {
        String(body.utf8.count, radix: 16) + "\r\n\(body)\r\n0\r\n\(lines(trailers))\r\n"
    }

    private static func http2(_ fields: Fields) -> HTTP2Fields { HTTP2Fields(fields.map { ($0.0.lowercased(), $0.1) }) }

    private static func fields(_ headers: HPACKHeaders?) -> Fields { headers?.map { ($0.name, $0.value) } ?? [] }

    private static func fields(_ lines: some Sequence<Substring>) -> Fields {
        lines.compactMap { line in
            guard let colon = line.firstIndex(of: ":") else { return nil }
            return (line[..<colon].lowercased(), String(line[colon...].dropFirst().drop { $0 == " " }))
        }
    }

    /// Parses a message of HTTP/1.1, with the interim responses before it.
    private static func parse(_ text: String) -> Message {
        var message = Message()
        var rest = text[...]
        while let end = rest.firstRange(of: "\r\n\r\n") {
            let lines = rest[..<end.lowerBound].split(separator: "\r\n")
            rest = rest[end.upperBound...]
            let status = lines.first?.split(separator: " ").dropFirst().first.flatMap { Int($0) }
            let fields = fields(lines.dropFirst())
            if let status, status < 200 {
                message.interim.append(fields)
                continue
            }
            message.status = status
            message.fields = [("", String(lines.first ?? ""))] + fields
            break
        }
        guard message["transfer-encoding"] == ["chunked"], let last = rest.firstRange(of: "\r\n0\r\n") else {
            message.body = String(rest)
            return message
        }
        message.body = String(rest[..<last.lowerBound].drop { $0 != "\r\n" }.dropFirst())
        message.trailers = fields(rest[last.upperBound...].split(separator: "\r\n"))
        return message
    }
}
