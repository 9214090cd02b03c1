import CloakroomIdentity
import InMemoryTracing
import TestSupport
import Testing
import Tracing

@testable import CloakroomCore

@Suite("Spans of sign-in and sign-out", .timeLimit(.minutes(3)))
struct AccountSpansTests {
    private let spans = TracedRequest()

    @Test(
        "A sign-in is a child span of its request with its outcome; a wrong password is no error",
        arguments: [
            (nil, "success", false), (.rejected, "rejected", false), (.unreachable, "upstream_error", true),
            (.timedOut, "upstream_error", true), (.invalidResponse, "upstream_error", true),
        ] as [(TokenClientError.Kind?, String, Bool)])
    func signIn(failure: TokenClientError.Kind?, outcome: String, isError: Bool) async throws {
        let tested = AccountControllerFixture(tracer: spans.tracer)
        if let failure { tested.client.response(.failure(TokenClientError(failure, in: .signIn))) }
        let (_, server) = try await spans.request { await tested.signIn() }
        let span = try require(spans.finished.first)
        expect(spans.finished.count, equals: 1)
        expect(span.operationName, equals: "sign_in")
        expect(span.kind, equals: .internal)
        expect(span.parentSpanID, equals: server.spanID)
        expect(span.texts, equals: ["cloakroom.outcome": outcome])
        expect(span.isError, equals: isError)
    }

    @Test("A malformed body and an unavailable store have different outcomes")
    func otherOutcomes() async throws {
        let tested = AccountControllerFixture(tracer: spans.tracer)
        _ = try await spans.request { await tested.signIn("{") }
        tested.store.fail(.create, .unavailable)
        _ = try await spans.request { await tested.signIn() }
        expect(spans.finished.map { $0.texts["cloakroom.outcome"] }, equals: ["invalid", "store_error"])
        expect(spans.finished.map(\.isError), equals: [false, true])
    }

    @Test("A sign-out is a child span of its request, and an unreachable upstream is an error")
    func signOut() async throws {
        let tested = AccountControllerFixture(tracer: spans.tracer)
        let first = try await tested.ticket()
        let (_, server) = try await spans.request { await tested.signOut(first) }
        _ = try await spans.request { await tested.signOut(first) }
        tested.client.failRevoke(.unreachable)
        let second = try await tested.ticket()
        _ = try await spans.request { await tested.signOut(second) }
        tested.store.fail(.end, .unavailable)
        _ = try await spans.request { await tested.signOut(second) }
        expect(spans.finished.map(\.operationName), equals: ["sign_out", "sign_out", "sign_out", "sign_out"])
        expect(spans.finished.first?.parentSpanID, equals: server.spanID)
        expect(
            spans.finished.map { $0.texts["cloakroom.outcome"] },
            equals: [
                "success", "no_session", "revoke_failed", "store_error",
            ])
        expect(spans.finished.map(\.isError), equals: [false, false, true, true])
    }

    @Test("A request that is not sampled creates no span, and its calls carry the received context")
    func unsampled() async throws {
        let tested = AccountControllerFixture(tracer: spans.tracer)
        let ticket = try await require(tested.signIn().ticket)
        _ = await tested.signOut(ticket)
        expect(empty: spans.finished)
        expect(tested.client.traceparents, equals: ["00-trace", "00-trace"])
    }

    @Test("Rule 22: no e-mail address, password, token or ticket appears in a span")
    func secrecy() async throws {
        let ticket = try await Upstreams.withMock(tracer: spans.tracer) { _, client in
            let tested = AccountControllerFixture(upstream: client, tracer: spans.tracer)
            let signedIn = try await spans.request { await tested.signIn() }
            let ticket = try require(signedIn.result.ticket)
            _ = try await spans.request { await tested.signOut(ticket) }
            return ticket
        }
        let finished = spans.finished
        // The calls are children of the operations that made them.
        expect(finished.map(\.operationName), equals: ["POST", "GET", "sign_in", "POST", "sign_out"])
        try require(finished.count == 5)
        expect(finished.map { $0.texts["url.path"] }, equals: ["/auth", "/user", nil, "/auth/revoke", nil])
        expect(finished[0].parentSpanID, equals: finished[2].spanID)
        expect(finished[1].parentSpanID, equals: finished[2].spanID)
        expect(finished[3].parentSpanID, equals: finished[4].spanID)
        for secret in ["jo@", "example.com", "canary", "Bearer", "Basic", "eyJ", ticket.cookieValue] {
            expect(!spans.text.contains(secret))
        }
    }
}
