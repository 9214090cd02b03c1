import Testing

@testable import CloakroomTelemetry

@Suite("Exchange labels")
struct ExchangeLabelsTests {
    @Test("Standard methods are told apart; everything else is _OTHER")
    func methods() {
        for method in ExchangeMethod.allCases where method != .other {
            #expect(ExchangeMethod(Array(method.label.description.utf8).span) == method)
        }
        for other in ["", "get", "GETT", "GE", "PROPFIND", "_OTHER"] {
            #expect(ExchangeMethod(Array(other.utf8).span) == .other)
        }
    }

    @Test("Labels are what the metrics document says")
    func decisions() {
        let counted = ExchangeDecision.allCases.filter(\.isAuthDecision).map(\.label.description)
        #expect(counted == ["forwarded", "public", "unauthenticated", "forbidden", "csrf_rejected"])
        #expect(ExchangeProtocolVersion.allCases.map(\.label.description) == ["1.0", "1.1", "2"])
        #expect(Set(ExchangeError.allCases.map(\.label.description)).count == ExchangeError.allCases.count)
    }
}
