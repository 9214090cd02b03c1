import CloakroomCore
import InMemoryTracing
import TestSupport
import Testing
import Tracing

@testable import CloakroomIdentity

@Suite("Spans of logins at providers")
struct LoginSpansTests {
    private let spans = TracedRequest()

    @Test("The start and the callback of a login are child spans of their requests, with their outcomes")
    func outcomes() async throws {
        let gateway = try LoginEndpoints(tracer: spans.tracer)
        let (_, server) = try await spans.request { try await LoginBrowser(gateway).signIn() }
        for error in [TokenClientError(.denied("invalid_grant"), in: .code), TokenClientError(.unreachable, in: .code)]
        {
            gateway.provider.failRedeem(error)
            _ = try await spans.request { try await LoginBrowser(gateway).signIn() }
        }
        _ = try await spans.request { await LoginBrowser(gateway).callback("state=a") }
        let finished = spans.finished
        expect(
            finished.map(\.operationName),
            equals: [
                "login", "login_callback", "login", "login_callback", "login", "login_callback", "login_callback",
            ])
        expect(finished.prefix(2).allSatisfy { $0.parentSpanID == server.spanID && $0.kind == .internal })
        expect(
            finished.map { $0.texts["cloakroom.outcome"] },
            equals: [
                "success", "success", "success", "failed", "success", "unavailable", "invalid",
            ])
        expect(finished.map(\.isError), equals: [false, false, false, true, false, true, false])
    }

    @Test("Rule 22: no code, state, token, subject or ticket appears in a span")
    func secrecy() async throws {
        let gateway = try LoginEndpoints(tracer: spans.tracer)
        let browser = LoginBrowser(gateway)
        _ = try await spans.request { try await browser.signIn() }
        let state = Base64URL.encode(try require(gateway.provider.secrets.first).state)
        for secret in ["canary", "jo", state, try require(browser.cookies["__Host-cloakroom"])] {
            expect(!spans.text.contains(secret))
        }
    }
}
