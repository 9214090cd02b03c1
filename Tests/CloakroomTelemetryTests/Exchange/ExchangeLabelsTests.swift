import Testing

@testable import CloakroomTelemetry

@Suite("Exchange labels")
struct ExchangeLabelsTests {
    @Test("Standard methods have their own labels; all other methods are _OTHER")
    func methods() {
        for method in RequestMethod.allCases where method != .other {
            #expect(RequestMethod(Array(method.label.description.utf8).span) == method)
        }
        for other in ["", "get", "GETT", "GE", "PROPFIND", "_OTHER"] {
            #expect(RequestMethod(Array(other.utf8).span) == .other)
        }
    }

    @Test("Labels are those that the metrics document lists")
    func decisions() {
        let counted = ExchangeDecision.allCases.filter(\.isAuthDecision).map(\.label.description)
        #expect(counted == ["forwarded", "public", "unauthenticated", "csrf_rejected"])
        #expect(HTTPProtocolVersion.allCases.map(\.label.description) == ["1.0", "1.1", "2"])
        #expect(Set(ExchangeErrorType.allCases.map(\.label.description)).count == ExchangeErrorType.allCases.count)
    }
}
