import CloakroomCore
import CloakroomWire
import Foundation
import TestSupport
import Testing

@Suite("Problem documents")
struct ProblemDocumentTests {
    private func members(_ problem: Problem, id: String = "0123") throws -> [String: Any] {
        let document = ProblemDocument(problem)
        let bytes = document.prefix + Array(id.utf8) + document.suffix
        return try require(JSONSerialization.jsonObject(with: Data(bytes)) as? [String: Any])
    }

    @Test("RFC 9457 §3.1: a document has all members", arguments: ProblemCode.allCases)
    func allMembers(code: ProblemCode) throws {
        let members = try members(Problem(code))
        expect(members["type"] as? String, equals: "urn:cloakroom:problem:\(code.rawValue)")
        expect(members["status"] as? Int, equals: code.status)
        expect(members["title"] as? String, equals: Problem(code).title)
        expect(members["detail"] as? String, equals: code.defaultDetail)
        expect(members["code"] as? String, equals: code.rawValue)
        expect(members["request_id"] as? String, equals: "0123")
        expect(members["reason"] == nil)
        expect(members.count, equals: 6)
    }

    @Test(
        "A failure behind the gateway is not blamed on the user's network: the text names what the user can do",
        arguments: ProblemCode.allCases.filter { (502...504).contains($0.status) })
    func failures(code: ProblemCode) {
        expect(!code.defaultDetail.lowercased().contains("network"))
        expect(code.defaultDetail.contains("report the request ID to the operator.") || code == .identityMisconfigured)
        expect(code.defaultDetail.contains("Try again") || code == .identityMisconfigured)
    }

    @Test("A 401 contains the reason", arguments: UnauthorizedReason.allCases)
    func reasons(reason: UnauthorizedReason) throws {
        try expect(members(Problem(.unauthorized, reason: reason))["reason"] as? String, equals: reason.rawValue)
    }

    @Test("A document can name the path where the user removes the problem")
    func login() throws {
        let document = ProblemDocument(Problem(.stepUp), login: "/auth/login?for=\"a\"")
        let bytes = document.prefix + Array("0123".utf8) + document.suffix
        let members = try require(JSONSerialization.jsonObject(with: Data(bytes)) as? [String: Any])
        expect(members["login"] as? String, equals: "/auth/login?for=\"a\"")
        expect(members["request_id"] as? String, equals: "0123")
        expect(members.count, equals: 7)
    }

    @Test("Status, sentence and retry time can be set")
    func given() throws {
        let problem = Problem(.unreachable, status: 504, detail: "Later.", retryAfter: 7)
        let members = try members(problem)
        expect(members["status"] as? Int, equals: 504)
        expect(members["title"] as? String, equals: "Gateway Timeout")
        expect(members["detail"] as? String, equals: "Later.")
        expect(problem.retryAfter, equals: 7)
    }

    @Test(
        "RFC 8259 §7: any sentence is escaped without loss",
        arguments: [
            "", "a\"b", "\",\"code\":\"x", "\\", "\\\"", "a\u{0}b", "\r\n\t", "\u{1f}\u{7f}", "ä€😀", "e\u{301}",
            "\u{2028}",
            "</script>", "{}",
        ])
    func hostileDetails(detail: String) throws {
        let members = try members(Problem(.unknown, detail: detail))
        expect((members["detail"] as? String)?.utf8.elementsEqual(detail.utf8), equals: true)
        expect(members["code"] as? String, equals: "unknown")
        let document = ProblemDocument(Problem(.unknown, detail: detail))
        expect((document.prefix + document.suffix.dropLast()).allSatisfy { $0 >= 0x20 && $0 != 0x7f })
    }

    @Test("Every code has an error status with a title, and a sentence", arguments: ProblemCode.allCases)
    func codes(code: ProblemCode) {
        expect((400..<600).contains(code.status))
        expect(Problem(code).title != "Error")
        expect(code.defaultDetail.hasSuffix("."))
        expect(code.rawValue.utf8.allSatisfy { (0x61...0x7a).contains($0) || $0 == UInt8(ascii: "_") })
    }

    @Test(
        "RFC 9110 §15: a malformed message has the status of its error",
        arguments: WireError.allCases)
    func wireErrors(error: WireError) {
        let expected =
            switch error {
            case .headTooLarge, .tooManyFields: 431
            case .targetTooLong: 414
            case .unknownCoding: 501
            case .version: 505
            default: 400
            }
        expect(Problem(error).status, equals: expected)
    }
}
