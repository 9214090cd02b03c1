import CloakroomWire
import TestSupport
import Testing

@testable import CloakroomTelemetry

@Suite("Exchange labels")
struct ExchangeLabelsTests {
    @Test("Standard methods have their own labels; all other methods are _OTHER")
    func methods() {
        expect(RequestMethod.other.label.description, equals: "_OTHER")
        for method in RequestMethod.allCases where method != .other {
            expect(method.label.description, equals: method.name.description)
        }
    }

    @Test("Labels are those that the metrics document lists")
    func decisions() {
        let counted = ExchangeDecision.allCases.filter(\.isAuthDecision).map(\.label.description)
        expect(counted, equals: ["forwarded", "public", "unauthenticated", "csrf_rejected", "forbidden"])
        expect(HTTPProtocolVersion.allCases.map(\.name.description), equals: ["1.0", "1.1", "2"])
        expect(Set(ExchangeErrorType.allCases.map(\.label.description)).count, equals: ExchangeErrorType.allCases.count)
    }
}
