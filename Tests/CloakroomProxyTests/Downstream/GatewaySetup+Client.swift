import TestSupport
import Testing

extension GatewaySetup {
    /// Runs the gateway with one client of HTTP/1.1.
    func run<R: Sendable>(_ body: (RunningGateway, RawPeer) async throws -> R) async throws -> R {
        try await run { gateway in try await body(gateway, gateway.client()) }
    }

    /// Runs the gateway with HTTP/2 on its first listener, and one client of it.
    func runHTTP2<R: Sendable>(
        _ options: HTTP2Client.HTTP2ClientOptions = .init(), _ body: (RunningGateway, HTTP2Client) async throws -> R
    ) async throws -> R {
        try await http2().run { gateway in try await body(gateway, gateway.http2(options)) }
    }
}

extension GatewaySetup {
    /// Runs the gateway, and expects the result of one step.
    func expect(_ step: Scenario.Step, location: SourceLocation = #_sourceLocation) async throws {
        try await Scenario("", on: self, step, location: location).run()
    }
}
