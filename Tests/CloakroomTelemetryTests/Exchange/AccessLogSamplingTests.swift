import TestSupport
import Testing

@testable import CloakroomTelemetry

@Suite("The exchanges that the access log includes")
struct AccessLogSamplingTests {
    private func record(
        route: Int, id: UInt64, status: UInt16 = 200, error: ExchangeErrorType? = nil,
        decision: ExchangeDecision = .undecided
    ) -> ExchangeRecord {
        var record = ExchangeRecord()
        record.decision = decision
        record.routeIndex = route
        record.requestID = ID128(high: 0, low: id)
        record.status = status
        record.errorType = error
        return record
    }

    @Test("A ratio of 1 includes every id, 0 none, and a ratio out of range is clamped")
    func bounds() {
        let sampling = AccessLogSampling(ratios: [1, 0, 7, -1, .nan])
        for id: UInt64 in [0, 1, 0xffff_ffff, 0x1_0000_0000, .max] {
            let admitted = (0..<5).map { sampling.shouldLog(record(route: $0, id: id)) }
            expect(admitted, equals: [true, false, true, false, true])
        }
    }

    @Test("A ratio includes its share of the ids, and the same id always or never")
    func share() {
        let sampling = AccessLogSampling(ratios: [0.25])
        var generator = SeededGenerator(seed: 7)
        var admitted = 0
        for _ in 0..<20_000 {
            let record = record(route: 0, id: generator.next())
            let isAdmitted = sampling.shouldLog(record)
            expect(sampling.shouldLog(record), equals: isAdmitted)
            if isAdmitted { admitted += 1 }
        }
        #expect(abs(admitted - 5_000) < 300)
    }

    @Test("Failures are logged with any ratio")
    func failures() {
        let sampling = AccessLogSampling(ratios: [0])
        expect(sampling.shouldLog(record(route: 0, id: 9, status: 500)))
        expect(sampling.shouldLog(record(route: 0, id: 9, status: 200, error: .clientClosed)))
        expect(!sampling.shouldLog(record(route: 0, id: 9, status: 401)))
        expect(!sampling.shouldLog(record(route: 0, id: 9, status: 499)))
    }

    @Test("Forged and forbidden requests are logged with any ratio, those without a session by the ratio")
    func rejections() {
        let sampling = AccessLogSampling(ratios: [0])
        let told = ExchangeDecision.allCases.filter { decision in
            sampling.shouldLog(record(route: 0, id: 9, status: 403, decision: decision))
        }
        expect(told, equals: [.csrfRejected, .forbidden])
        expect(!sampling.shouldLog(record(route: 0, id: 9, status: 401, decision: .unauthenticated)))
    }

    @Test("Requests without a matching route and routes without a ratio are logged completely")
    func unmatched() {
        let sampling = AccessLogSampling(ratios: [0])
        expect(sampling.shouldLog(record(route: -1, id: .max)))
        expect(sampling.shouldLog(record(route: 1, id: .max)))
        expect(AccessLogSampling(ratios: []).shouldLog(record(route: 0, id: .max)))
    }
}
