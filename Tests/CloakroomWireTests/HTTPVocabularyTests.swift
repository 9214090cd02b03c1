import CloakroomWire
import Testing

@Suite("HTTP vocabulary")
struct HTTPVocabularyTests {
    @Test("Standard methods are recognized by their exact names")
    func methods() {
        for method in RequestMethod.allCases where method != .other {
            #expect(RequestMethod(Array(method.name.description.utf8).span) == method)
        }
        for other in ["", "G", "get", "GETT", "GE", "PROPFIND", "_OTHER"] {
            #expect(RequestMethod(Array(other.utf8).span) == .other)
        }
    }

    @Test("Safe methods are idempotent, as are PUT and DELETE")
    func properties() {
        #expect(RequestMethod.allCases.filter(\.isSafe) == [.get, .head, .options, .trace])
        #expect(
            Set(RequestMethod.allCases.filter(\.isIdempotent)) == [.get, .head, .options, .trace, .put, .delete])
    }

    @Test("Schemes and versions have their names as in a URI and in the OpenTelemetry conventions")
    func names() {
        #expect(URIScheme.allCases.map(\.name.description) == ["http", "https"])
        #expect(HTTPProtocolVersion.allCases.map(\.name.description) == ["1.0", "1.1", "2"])
    }
}
