import TestSupport
import Testing

/// What a client sends on one connection of HTTP/1.1, and all that it receives: a row of a table of tests.
struct WireExchange: Sendable, CustomTestStringConvertible {
    let testDescription: String
    private let setup: GatewaySetup
    private let sent: String
    private let responses: [Scenario.Expectation]
    private let closes: Bool
    private let upstream: [String]?
    private let metric: String?
    private let location: SourceLocation

    /// - Parameters:
    ///   - closes: Whether the gateway closes the connection after the last response; otherwise it serves one more request.
    ///   - upstream: The request lines that the upstream received. Empty: not even a connection. `nil`: not checked.
    init(
        _ description: String, on setup: GatewaySetup = .serving, _ sent: String, _ responses: [Scenario.Expectation],
        closes: Bool = true, upstream: [String]? = nil, metric: String? = nil,
        location: SourceLocation = #_sourceLocation
    ) {
        testDescription = description
        self.setup = setup
        self.sent = sent
        self.responses = responses
        self.closes = closes
        self.upstream = upstream
        self.metric = metric
        self.location = location
    }

    func run() async throws {
        try await setup.run { gateway, client in
            client.send(sent)
            for expected in responses {
                let response = try await client.response()
                expected.check(response, "\(response)", location)
            }
            if closes {
                try await client.closed()
                #expect(client.unread.isEmpty, sourceLocation: location)
            } else {
                let next = try await client.exchange(Ask.get("/nowhere"))
                #expect(next.status == 404, sourceLocation: location)
            }
            if let upstream {
                #expect(gateway.upstream.requests.map(\.line) == upstream, sourceLocation: location)
                if upstream.isEmpty { #expect(gateway.upstream.connections.isEmpty, sourceLocation: location) }
            }
            if let metric { try await gateway.metric(metric) }
        }
    }
}

extension Scenario.Expectation: ExpressibleByIntegerLiteral {
    /// Expects a response.
    init(_ status: Int, _ text: String? = nil, code: String? = nil, _ fields: String...) {
        self.init(has: fields, text: text)
        self.status = status
        self.code = code
    }

    init(integerLiteral status: Int) { self.init(status) }
}
