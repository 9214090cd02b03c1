import CloakroomIdentity
import FoundationEssentials
import MockAPI
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("The token client with other dialects of the mock API", .timeLimit(.minutes(3)))
struct TokenEndpointTests {
    typealias Configuration = IdentityEndpointConfiguration

    private func withMock<R: Sendable>(
        _ change: (inout UpstreamConfiguration) -> Void,
        body: (RunningMockAPI, UpstreamTokenClient) async throws -> R
    ) async throws -> R {
        let users = [MockUser(email: "jo", password: "pä:ss &=+%", name: "Jo")]
        return try await Upstreams.withMock(users, change: change, body: body)
    }

    private static func useLogin(_ configuration: inout UpstreamConfiguration) {
        let success = Configuration.SuccessMember(path: "ok")
        configuration.signIn = Configuration(
            path: "/login", credentials: .form, members: .init(name: "username", password: "secret"),
            fixedMembers: [.init(name: "realm", value: "main")], accessToken: "session.key",
            refreshToken: "session.again", success: success, errorCode: "code")
        configuration.refresh = Configuration(
            path: "/login/again", credentials: .form, members: .init(refreshToken: "token"),
            accessToken: "session.key", refreshToken: "session.again", success: success, errorCode: "code",
            endsOn: ["token_expired"])
        configuration.revoke = nil
    }

    private func jo(_ password: String = "pä:ss &=+%") throws -> Credentials {
        try Credentials(name: "jo", kind: .text, password: Secret(password))
    }

    private var now: WallTime { WallTime(seconds: Int64(Date().timeIntervalSince1970)) }

    @Test("a form with names, static members and a success rule of its own signs in and refreshes")
    func ownForm() async throws {
        try await withMock {
            Self.useLogin(&$0)
        } body: { _, tokenClient in
            let signedIn = try await tokenClient.signIn(try jo(), traceparent: nil, now: now)
            let refreshed = try await tokenClient.refresh(signedIn.tokens, traceparent: nil, now: now)
            expect(refreshed.authorization != signedIn.tokens.authorization)
            await #expect(throws: TokenClientError(.rejected, in: .signIn)) {
                try await tokenClient.signIn(try jo("wrong"), traceparent: nil, now: now)
            }
            await #expect(throws: TokenClientError(.rejected, in: .refresh)) {
                try await tokenClient.refresh(signedIn.tokens, traceparent: nil, now: now)
            }
        }
        try await withMock {
            Self.useLogin(&$0)
            $0.signIn?.fixedMembers = []
        } body: { _, tokenClient in
            _ = await #expect(throws: TokenClientError(.rejected, in: .signIn)) {
                try await tokenClient.signIn(try jo(), traceparent: nil, now: now)
            }
        }
        // Without the token the response is no success either, and its code ends no session.
        try await withMock {
            Self.useLogin(&$0)
            $0.refresh?.members.refreshToken = "other"
        } body: { _, tokenClient in
            let signedIn = try await tokenClient.signIn(try jo(), traceparent: nil, now: now)
            await #expect(throws: TokenClientError(.misconfigured(.requestRejected), in: .refresh)) {
                try await tokenClient.refresh(signedIn.tokens, traceparent: nil, now: now)
            }
        }
    }
}
