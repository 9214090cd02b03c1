import CloakroomCore
import CloakroomIdentity
import InMemoryTracing
import TestSupport
import Testing
import Tracing

@Suite("Spans of token refreshes", .timeLimit(.minutes(3)))
struct RefreshSpansTests {
    private let spans = TracedRequest()

    @Test(
        "A refresh is a child span of the request that started it; a rejection is no error, an outage is one",
        arguments: [
            (nil, "success", false), (.rejected, "rejected", false), (.timedOut, "transient", true),
        ] as [(TokenClientError.Kind?, String, Bool)])
    func refresh(failure: TokenClientError.Kind?, outcome: String, isError: Bool) async throws {
        let tested = RefresherFixture(tracer: spans.tracer)
        let (ticket, session) = try await tested.session()
        if let failure { tested.client.fail(failure) }
        let (_, server) = try await spans.request { await tested.refresh(session, ticket) }
        await tested.settle()
        let span = try require(spans.finished.first)
        expect(spans.finished.count, equals: 1)
        expect(span.operationName, equals: "refresh")
        expect(span.kind, equals: .internal)
        expect(span.parentSpanID, equals: server.spanID)
        expect(span.texts, equals: ["cloakroom.outcome": outcome])
        expect(span.isError, equals: isError)
    }

    @Test("A background refresh and one for a request that is not sampled create no span")
    func untraced() async throws {
        let tested = RefresherFixture(tracer: spans.tracer)
        let (ticket, session) = try await tested.session()
        _ = await tested.refresh(session, ticket)
        await tested.settle()
        let (otherTicket, other) = try await tested.session("2")
        tested.refresher.refreshInBackground(other, ticket: otherTicket)
        await tested.settle()
        expect(tested.results, equals: [.success, .success])
        expect(empty: spans.finished)
    }
}
