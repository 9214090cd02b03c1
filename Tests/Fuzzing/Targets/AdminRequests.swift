import CloakroomAdmin
import CloakroomIdentity
import Foundation

extension FuzzTarget {
    /// The body of a request to end sessions. An accepted body selects sessions in exactly one way.
    static let revocations = FuzzTarget(
        "revocations",
        words: [
            "{\"user\":\"a@b.c\"}", "{\"session\":\"0123456789abcdef\"}",
            "{\"issuer\":\"https://a\",\"subject\":\"b\"}", "\"issuer\":", "\"subject\":", "\"user\":", "\"session\":",
            ",", "{", "}",
            "@",
            "\"", "\\u0040", "\\\"", " ", "[", "]", "null", "\u{0}", "\u{feff}",
        ],
        // Longer bodies are rejected before they are parsed.
        times: [
            LinearTime(JSONTexts.families, shortest: 64) { _ = try? RevocationRequest(json: $0) }
        ]
    ) { bytes throws(Violation) in
        guard let target = try? RevocationRequest(json: Array(bytes)) else { return }
        guard let document = try? JSONSerialization.jsonObject(with: Data(bytes), options: []),
            let members = document as? [String: String]
        else { throw Violation("accepted, but not an object with texts") }
        func isSame(_ text: String, _ name: String) -> Bool {
            members[name].map { withoutMarks($0).elementsEqual(withoutMarks(text)) } ?? false
        }
        // The body must be UTF-8 without duplicate members, and therefore contain exactly four unescaped quotation marks
        // for each member.
        var (quotes, isEscaped) = (0, false)
        for byte in bytes {
            if !isEscaped, byte == UInt8(ascii: "\"") { quotes += 1 }
            isEscaped = !isEscaped && byte == UInt8(ascii: "\\")
        }
        try require(quotes == 4 * members.count, "accepted with a duplicate member")
        switch target {
        case .user(let name):
            try require(
                members.count == 1 && isSame(name, "user") && (1...255).contains(name.utf8.count),
                "invalid user accepted")
        case .account(let issuer, let subject):
            try require(
                members.count == 2 && isSame(issuer, "issuer") && isSame(subject, "subject")
                    && (1...512).contains(issuer.utf8.count) && (1...255).contains(subject.utf8.count),
                "invalid account accepted")
        case .session:
            try require(members.count == 1 && members["session"]?.utf8.count == 16, "invalid session accepted")
        }
    }
}

/// Foundation drops a byte order mark at the beginning of a string; it is part of the name.
private func withoutMarks(_ text: String) -> String.UnicodeScalarView {
    String.UnicodeScalarView(text.unicodeScalars.filter { $0 != "\u{feff}" })
}
