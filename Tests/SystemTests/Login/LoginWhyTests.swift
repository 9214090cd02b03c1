import TestSupport
import Testing

@testable import MockAPI
@testable import cloakroom

/// `cloakroom why` about sign-ins at a provider that fail.
@Suite("Why a login failed", .serialized, .timeLimit(.minutes(3)))
struct LoginWhyTests {
    /// A failure, and its explanation.
    struct Failure: Sendable, CustomTestStringConvertible {
        let reason: String
        let step: String
        let cause: String
        let remedy: String
        let change: @Sendable (inout ProviderScript) -> Void

        var testDescription: String { reason }
    }

    static let failures = [
        Failure(
            reason: "invalid_client", step: "the token response", cause: "The token endpoint rejects the client",
            remedy: "client.id, the secret and its method"
        ) { $0.faults[.code] = [.error("invalid_client", status: 401)] },
        Failure(
            reason: "no_pending_login", step: "the return from the provider",
            cause: "The browser has no login cookie for the state", remedy: "Begin again"
        ) { $0.callback.set["state"] = String(repeating: "A", count: 43) },
        Failure(
            reason: "wrong_nonce", step: "the token response", cause: "The ID token is not valid",
            remedy: "Most often the clocks"
        ) { $0.idToken.claims.set["nonce"] = #""other""# },
        Failure(
            reason: "access_denied", step: "the return from the provider", cause: "The user cancelled",
            remedy: "The provider's own log; assign the user"
        ) { $0.denial = "access_denied" },
        Failure(
            reason: "code_unavailable", step: "the token response", cause: "The token endpoint, the userinfo endpoint",
            remedy: "The provider's own log"
        ) { $0.faults[.code] = [.error("server_error", status: 500)] },
    ]

    private func expectReport(
        _ failure: Failure, in report: RejectionReport
    ) {
        expect(report.reason, equals: failure.reason)
        expect(
            report.steps.first { $0.step == "sign-in" }?.result, equals: "failed at \(failure.step)", "\(report.text)")
        expect(report.cause.hasPrefix(failure.cause) && report.remedy.hasPrefix(failure.remedy), "\(report.text)")
    }

    @Test("A rejected secret, an old state, a wrong nonce, a refusal and a failing token endpoint", arguments: failures)
    func failed(_ failure: Failure) async throws {
        try await ProviderGateway.withProvider { site, provider in
            provider.script { failure.change(&$0) }
            let browser = FormBrowser()
            let callback = try await browser.visit(try await site.beginLogin(browser).url, stop: site.base)
            let response = try await browser.send("GET", callback.url)
            #expect(response.status >= 400)
            expectReport(failure, in: try await site.why(response))
        }
    }

    @Test("A provider that is away")
    func away() async throws {
        let settings = ProviderGateway.Settings(issuer: "http://127.0.0.1:\(try FreePort.next())")
        try await ProviderGateway.running(settings, port: try FreePort.next()) { site in
            let response = try await FormBrowser().send("GET", site.base + "/auth/login", FormBrowser.navigation)
            expect(response.status, equals: 503)
            let failure = Failure(
                reason: "push_unavailable", step: "the pushed request",
                cause: "The metadata or the keys of the provider were never fetched", remedy: "The status page"
            ) { _ in }
            expectReport(failure, in: try await site.why(response))
        }
    }
}
