import CloakroomWire
import TestSupport
import Testing

@Suite("HTTP vocabulary")
struct HTTPVocabularyTests {
    @Test("Standard methods are recognized by their exact names")
    func methods() {
        for method in RequestMethod.allCases where method != .other {
            expect(RequestMethod(Array(method.name.description.utf8).span), equals: method)
        }
        for other in ["", "G", "get", "GETT", "GE", "PROPFIND", "_OTHER"] {
            expect(RequestMethod(Array(other.utf8).span), equals: .other)
        }
    }

    @Test("Safe methods are idempotent, as are PUT and DELETE")
    func properties() {
        expect(RequestMethod.allCases.filter(\.isSafe), equals: [.get, .head, .options, .trace])
        expect(
            Set(RequestMethod.allCases.filter(\.isIdempotent)), equals: [.get, .head, .options, .trace, .put, .delete])
    }

    @Test("Schemes and versions have their names as in a URI and in the OpenTelemetry conventions")
    func names() {
        expect(URIScheme.allCases.map(\.name.description), equals: ["http", "https"])
        expect(HTTPProtocolVersion.allCases.map(\.name.description), equals: ["1.0", "1.1", "2"])
    }
}
