import CloakroomCore
import NIOHPACK
import TestSupport
import Testing

/// A conversation of one client with a gateway, and what must arrive at the client and at the upstream.
///
/// A row of a table of tests. In all expected texts `…` stands for any text.
struct Scenario: Sendable, CustomTestStringConvertible {
    /// What is expected of one message. What is not set is not checked.
    struct Expectation: Sendable, ExpressibleByStringLiteral {
        /// The request line or status line.
        var line: String?
        var status: Int?
        /// The `code` of a problem document.
        var code: String?
        /// The `reason` of a problem document.
        var reason: String?
        /// The body; of a request with its framing.
        var text: String?
        /// Lines `Name: value`: all lines of these names, in order. A name alone must not appear, and `…Name: value` is
        /// one of possibly several lines.
        var fields: [String] = []
        /// Texts that are nowhere in the message.
        var absent: [String] = []

        /// Expects a request at the upstream.
        init(_ line: String? = nil, has fields: [String] = [], lacks absent: [String] = [], text: String? = nil) {
            self.line = line
            self.fields = fields
            self.absent = absent
            self.text = text
        }

        init(stringLiteral line: String) { self.init(line) }
    }

    /// One step of the client, or of the world around it.
    enum Step: Sendable {
        /// Sends each request, and expects the same of all responses.
        /// - Parameter isEachAlone: Whether each has a connection of its own; over HTTP/2 they share one.
        case requests([String], Expectation, isEachAlone: Bool)
        /// Replaces the configuration by the one of the start with a change.
        case replace(@Sendable (inout GatewayConfiguration) throws -> Void)
        /// Does anything else.
        case run(@Sendable (RunningGateway) async throws -> Void)

        /// Sends a request on the connection of the steps before, unless a response announced its end.
        static func ask(
            _ request: String, _ status: Int? = nil, _ code: String? = nil, reason: String? = nil, text: String? = nil,
            line: String? = nil, has fields: [String] = [], lacks absent: [String] = []
        ) -> Step {
            var expected = response(status, code, reason, text, fields, absent)
            expected.line = line
            return .requests([request], expected, isEachAlone: false)
        }

        /// Sends a request that the upstream serves with ``Reply/ok``.
        static func ok(_ request: String = Ask.get(), has fields: [String] = []) -> Step {
            ask(request, 200, text: "ok", has: fields)
        }

        /// Sends requests one after another, on the connection of the steps before.
        static func all(
            _ requests: [String], _ status: Int? = nil, _ code: String? = nil, reason: String? = nil,
            text: String? = nil, has fields: [String] = [], lacks absent: [String] = []
        ) -> Step {
            .requests(requests, response(status, code, reason, text, fields, absent), isEachAlone: false)
        }

        /// Sends each request on its own connection.
        static func each(
            _ requests: [String], _ status: Int? = nil, _ code: String? = nil, reason: String? = nil,
            text: String? = nil, has fields: [String] = [], lacks absent: [String] = []
        ) -> Step {
            .requests(requests, response(status, code, reason, text, fields, absent), isEachAlone: true)
        }

        private static func response(
            _ status: Int?, _ code: String?, _ reason: String?, _ text: String?, _ fields: [String], _ absent: [String]
        ) -> Expectation {
            var expected = Expectation(has: fields, lacks: absent, text: text)
            expected.status = status
            expected.code = code
            expected.reason = reason
            return expected
        }
    }

    let testDescription: String
    private let setup: GatewaySetup
    private let steps: [Step]
    private let sent: [Expectation]?
    private let metrics: [String]
    private let isAlsoHTTP2: Bool
    private let location: SourceLocation

    /// - Parameters:
    ///   - setup: The gateway; its upstream responds with ``Reply/ok`` unless it has another script. `Ask.cookie` is the
    ///     cookie of a session.
    ///   - sent: What the upstream received at the end. Empty: not even a connection. `nil`: not checked.
    ///   - metrics: Lines that the metrics contain at the end.
    ///   - isAlsoHTTP2: Whether the client does the same over HTTP/2 too, with a new gateway.
    init(
        _ description: String, on setup: GatewaySetup = .serving, _ steps: Step..., sent: [Expectation]? = nil,
        metrics: [String] = [], alsoHTTP2 isAlsoHTTP2: Bool = false, location: SourceLocation = #_sourceLocation
    ) {
        testDescription = description
        self.setup = setup
        self.steps = steps
        self.sent = sent
        self.metrics = metrics
        self.isAlsoHTTP2 = isAlsoHTTP2
        self.location = location
    }

    func run() async throws {
        for isHTTP2 in isAlsoHTTP2 ? [false, true] : [false] {
            try await (isHTTP2 ? setup.http2() : setup).run { gateway in
                let client = ScenarioClient(gateway, isHTTP2: isHTTP2)
                for step in steps { try await take(step, client) }
                if let sent { check(gateway.upstream, sent) }
                for metric in metrics { try await gateway.metric(metric) }
            }
        }
    }

    private func take(_ step: Step, _ client: ScenarioClient) async throws {
        switch step {
        case .requests(let requests, let expected, let isEachAlone):
            for request in requests {
                if isEachAlone { client.leave() }
                let response = try await client.exchange(request)
                let what = "\(client.isHTTP2 ? "HTTP/2" : "HTTP/1.1"): \(request.prefix(300))\n\(response)"
                expected.check(response, what, location)
            }
        case .replace(let adjust): try await client.gateway.replace(adjust)
        case .run(let body): try await body(client.gateway)
        }
    }

    private func check(_ upstream: ScriptedUpstream, _ sent: [Expectation]) {
        let requests = upstream.requests
        #expect(requests.count == sent.count, "\(requests.map(\.line))", sourceLocation: location)
        if sent.isEmpty { #expect(upstream.connections.isEmpty, sourceLocation: location) }
        for (request, expected) in zip(requests, sent) { expected.check(request, location) }
    }
}

extension Scenario.Expectation {
    func check(_ response: TestResponse, _ what: String, _ location: SourceLocation) {
        let start = "\(response.version) \(response.status) \(response.reason)"
        if let line { #expect(Self.matches(start, line), "\(what)", sourceLocation: location) }
        if let status { #expect(response.status == status, "\(what)", sourceLocation: location) }
        if let code { #expect(response.code == code, "\(what)", sourceLocation: location) }
        if let reason { #expect(response.problemReason == reason, "\(what)", sourceLocation: location) }
        let head = response.fields.map { "\($0.name): \($0.value)" }.joined(separator: "\n")
        check(response.text, "\(start)\n\(head)", what, location) { response.values($0) }
    }

    fileprivate func check(_ request: ScriptedUpstream.Request, _ location: SourceLocation) {
        if let line { #expect(Self.matches(request.line, line), "\(request.head)", sourceLocation: location) }
        check(request.text, request.head, request.head, location) { request.values($0) }
    }

    private func check(
        _ body: String, _ head: String, _ what: String, _ location: SourceLocation, values: (String) -> [String]
    ) {
        if let text { #expect(Self.matches(body, text), "\(what)", sourceLocation: location) }
        for part in absent {
            #expect(!head.contains(part) && !body.contains(part), "\(part) in \(what)", sourceLocation: location)
        }
        var expected: [(name: String, values: [String])] = []
        for line in fields {
            let parts = line.split(separator: ": ", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            let more = Array(parts.dropFirst())
            if parts[0].first == "…", let text = more.first {
                let isFound = values(String(parts[0].dropFirst())).contains { Self.matches($0, text) }
                #expect(isFound, "no \(line) in \(what)", sourceLocation: location)
                continue
            }
            if expected.last?.name == parts[0] {
                expected[expected.count - 1].values += more
            } else {
                expected.append((parts[0], more))
            }
        }
        for (name, texts) in expected {
            let found = values(name)
            let isRight = found.count == texts.count && zip(found, texts).allSatisfy { Self.matches($0, $1) }
            #expect(isRight, "\(name): \(found) and not \(texts) in \(what)", sourceLocation: location)
        }
    }

    /// Whether a text is a pattern in which `…` stands for any text.
    private static func matches(_ text: String, _ pattern: String) -> Bool {
        let parts = pattern.split(separator: "…", omittingEmptySubsequences: false)
        guard parts.count > 1, let first = parts.first, let last = parts.last else { return text == pattern }
        guard text.hasPrefix(first) else { return false }
        var rest = text.dropFirst(first.count)
        for part in parts.dropFirst().dropLast() where !part.isEmpty {
            guard let range = rest.firstRange(of: part) else { return false }
            rest = rest[range.upperBound...]
        }
        return rest.hasSuffix(last)
    }
}

/// A client of one HTTP version.
private final class ScenarioClient {
    let gateway: RunningGateway
    let isHTTP2: Bool
    private var peer: RawPeer?
    private var streams: HTTP2Client?
    private var nextStream: UInt32 = 1

    init(_ gateway: RunningGateway, isHTTP2: Bool) {
        self.gateway = gateway
        self.isHTTP2 = isHTTP2
    }

    /// The next request has a new connection.
    func leave() { peer = nil }

    func exchange(_ text: String) async throws -> TestResponse {
        if isHTTP2 { return try await exchangeHTTP2(text) }
        let open = if let peer { peer } else { try await gateway.client() }
        let response = try await open.exchange(text, isToHead: text.hasPrefix("HEAD "))
        peer = response["Connection"] == "close" ? nil : open
        return response
    }

    /// Sends the request of a text of HTTP/1.1.
    private func exchangeHTTP2(_ text: String) async throws -> TestResponse {
        let open = if let streams { streams } else { try await gateway.http2() }
        streams = open
        let parts = text.split(separator: "\r\n\r\n", maxSplits: 1, omittingEmptySubsequences: false)
        let lines = parts[0].split(separator: "\r\n")
        let start = lines[0].split(separator: " ")
        var fields = HTTP2Fields.request(String(start[0]), String(start[1]))
        let further = lines.dropFirst().map { line in
            let field = line.split(separator: ": ", maxSplits: 1)
            return (field[0].lowercased(), String(field[1]))
        }
        fields.lines += HTTP2Fields(further.filter { $0.0 != "host" }).lines
        if let host = further.first(where: { $0.0 == "host" })?.1 { fields.lines[2].value = Array(host.utf8) }
        let id = nextStream
        nextStream += 2
        let body = String(parts[1])
        open.send(.headers(id, fields, ends: body.isEmpty))
        if !body.isEmpty { open.send(.data(id, body, ends: true)) }
        let response = try await open.response(id)
        let head = (response.head ?? [:]).filter { !$0.name.hasPrefix(":") }
        return TestResponse(
            version: "HTTP/2", status: response.status ?? 0, reason: "",
            fields: head.map { (name: $0.name, value: $0.value) }, body: response.body)
    }
}

extension GatewaySetup {
    /// A gateway whose upstream responds to all requests with ``Reply/ok``.
    static var serving: GatewaySetup { replying(Reply.ok) }

    /// A gateway whose upstream responds to all requests with the same bytes.
    static func replying(_ response: String) -> GatewaySetup {
        GatewaySetup([.request, .send(response), .again])
    }
}
