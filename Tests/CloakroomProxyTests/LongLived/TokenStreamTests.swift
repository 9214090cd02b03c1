import NIOCore
import TestSupport
import Testing

@testable import CloakroomCore

/// The provider of the token is asked about it. `FakeTokens` decides when, and what it responds.
@Suite("Long-lived responses of access tokens", .serialized)
struct TokenStreamTests {
    private static let session = Company.session().1
    private let tokens = FakeTokens(["good": Self.session])

    private var setup: GatewaySetup {
        GatewaySetup().steppedTime().with(\.tokens, tokens).configuration {
            $0.addCompany()
            $0.timeouts.tunnelIdle = .seconds(600)
            $0.changePrivate { $0.credentials = .bearer }
        }
    }

    /// Opens a WebSocket.
    private func open(_ body: (Tunnel) async throws -> Void) async throws {
        let request = Handshake.request("/private/socket", "Authorization: Bearer good")
        try await Tunnel.open(setup, request: request, body: body)
    }

    @Test("Rule 142: a WebSocket ends with code 1008 when its provider, asked again, states that the token has ended")
    func revoked() async throws {
        try await open { tunnel in
            try await tunnel.gateway.advance(.seconds(10), inStepsOf: .seconds(1))
            expect(tokens.questions, equals: 0)
            tokens.ask(.active(Company.session().1))
            try await tunnel.gateway.advance(.seconds(2), inStepsOf: .seconds(1))
            try await eventually("the question") { tokens.questions == 1 }
            try await tunnel.gateway.advance(.seconds(90), inStepsOf: .seconds(1))
            expect(tokens.questions == 1 && !tunnel.client.hasInputEnded)
            tokens.ask(.missing(.revoked))
            try await tunnel.gateway.advance(.seconds(2), inStepsOf: .seconds(1))
            expect(Frame.closeCode(try await tunnel.client.rest()), equals: 1_008)
            expect(Frame.maskedCloseCode(try await tunnel.upstream.rest()), equals: 1_008)
            try await tunnel.client.closed()
            try await tunnel.upstream.closed()
        }
    }

    @Test("Rule 142: also when the claims that the provider states now do not satisfy the route any more")
    func otherClaims() async throws {
        let other = Company.session(claims: #"{"groups":["guests"]}"#).1
        let setup = setup.configuration {
            $0.changePrivate { $0.require = SessionRequirement(claims: [RequiredClaim("groups", in: ["staff"])]) }
        }
        let request = Handshake.request("/private/socket", "Authorization: Bearer good")
        try await Tunnel.open(setup, request: request) { tunnel in
            tokens.ask(.active(other))
            try await tunnel.gateway.advance(.seconds(2), inStepsOf: .seconds(1))
            expect(Frame.closeCode(try await tunnel.client.rest()), equals: 1_008)
        }
    }

    @Test("Rule 142: while the provider does not respond, an event stream continues for a minute, and is then aborted")
    func noResponse() async throws {
        try await Tunnel.gateway(setup) { gateway, server in
            let client = try await gateway.client(sending: Ask.get("/private/a", "Authorization: Bearer good"))
            let upstream = try await server.requested()
            upstream.send(Reply.eventStream)
            _ = try await client.head()
            tokens.ask(nil)
            try await gateway.advance(.seconds(59), inStepsOf: .seconds(1))
            expect(tokens.questions > 1 && !client.hasInputEnded)
            try await gateway.advance(.seconds(6), inStepsOf: .seconds(1))
            try await eventually("the end of the stream") { client.hasInputEnded }
            expect(!client.unread.hasSuffix("0\r\n\r\n"))
            try await upstream.closed()
        }
    }
}
