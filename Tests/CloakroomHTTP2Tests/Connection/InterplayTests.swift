import NIOHTTP2
import TestSupport
import Testing

@testable import CloakroomHTTP2

@Suite("The client of swift-nio-http2 as peer")
struct InterplayTests {
    private static func act(_ session: InterplaySession, requests: Int) {
        let ids = session.exchanges.keys.sorted()
        let id = ids.randomElement(using: &session.generator) ?? 1
        switch session.below(30) {
        case 0..<4: if ids.count < requests { session.request() }
        case 4..<8: session.sendBody(id)
        case 8: if session.below(4) == 0 { session.resetByClient(id) }
        case 9: if session.below(4) == 0 { session.resetByServer(id) }
        case 10, 11, 12: session.returnWindows(id, all: session.below(2) == 0)
        case 13:
            session.settings(
                [0, 500, 65_535, 200_000][session.below(4)], table: [0, 100, 4_096, 60_000][session.below(4)])
        case 14: session.ping()
        case 15, 16: session.respond(id)
        case 17, 18, 19: session.sendTurns(1 + session.below(4))
        case 20, 21: session.consume(id, all: session.below(2) == 0)
        case 22..<26: session.moveToServer([1, 9, 100, 5_000, 100_000][session.below(5)])
        default: session.moveToClient([1, 9, 100, 5_000, 100_000][session.below(5)])
        }
    }

    /// Both sides end everything that has begun.
    private static func end(_ session: InterplaySession) {
        session.settings(65_535, table: 4_096)
        var rounds = 0
        var quietRounds = 0
        while rounds < 400, quietRounds < 5 {
            rounds += 1
            // What has arrived in a round is acted on in the next.
            quietRounds = session.isQuiet ? quietRounds + 1 : 0
            session.tick()
            for id in session.exchanges.keys.sorted() {
                session.sendBody(id, all: true)
                session.consume(id, all: true)
                session.respond(id)
                session.returnWindows(id, all: true)
            }
            session.sendTurns(.max)
            if !session.isQuiet { quietRounds = 0 }
            session.moveToServer(.max)
            session.moveToClient(.max)
        }
    }

    private static func check(_ id: Int, _ exchange: InterplaySession.Exchange) {
        let isCut = exchange.isResetByClient || (exchange.isClosedByServer && !exchange.isResponseEnded)
        let requestBody = InterplaySession.body(id, 0..<exchange.requestSent, salt: 0)
        let responseBody = InterplaySession.body(id, 0..<exchange.responseSent, salt: 1)
        if let seen = exchange.seenRequest { expect(seen, equals: exchange.request.joined(separator: ", ")) }
        if let seen = exchange.seenResponse { expect(seen, equals: exchange.response) }
        expect(requestBody.starts(with: exchange.seenRequestBody))
        expect(responseBody.starts(with: exchange.seenResponseBody))
        if exchange.isRequestEndSeen {
            expect(exchange.seenRequestBody.count, equals: exchange.requestCount)
            expect(exchange.seenRequestTrailers, equals: (exchange.hasRequestTrailers ? ["x-sum: \(id)"] : []))
        }
        if exchange.isResponseEndSeen {
            expect(exchange.seenResponseBody.count, equals: exchange.responseCount)
            expect(exchange.seenResponseTrailers, equals: (exchange.hasResponseTrailers ? ["x-sum: \(id)"] : []))
        }
        guard !isCut else { return }
        expect(exchange.seenRequest != nil, "request \(id) was not received")
        expect(exchange.isResponseEndSeen, "response \(id) was not received completely")
        // After a response before the end of the request, the rest of the request is not needed.
        expect(exchange.isRequestEndSeen || exchange.isResponseEnded, "request \(id) was not received completely")
        expect(exchange.seenReset == nil || exchange.seenReset == .noError)
    }

    @Test(
        "Random requests, bodies, trailers, resets, windows and settings: what one side has sent the other has received",
        arguments: 1...40 as ClosedRange<UInt64>)
    func random(_ seed: UInt64) throws {
        let session = try InterplaySession(seed: seed)
        defer { session.close() }
        for _ in 0..<1_500 where session.failure == nil {
            session.tick()
            Self.act(session, requests: 40)
        }
        Self.end(session)
        guard session.failure == nil else {
            Issue.record("\(session.failure ?? "")")
            return
        }
        expect(session.isQuiet)
        expect(session.acknowledgedPings, equals: session.sentPings)
        #expect(session.exchanges.count > 10)
        for (id, exchange) in session.exchanges { Self.check(id, exchange) }
    }
}
