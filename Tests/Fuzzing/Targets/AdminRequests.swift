import CloakroomAdmin
import CloakroomIdentity
import CloakroomTelemetry
import Foundation

extension FuzzTarget {
    /// The `Accept` field of a scraper (RFC 9110 §12.5.1).
    static let accept = FuzzTarget(
        "accept",
        words: [
            "application/openmetrics-text", "; version=1.0.0", ";version=\"1.0.0\"", ";version=0.0.1", "text/plain",
            ";q=0.5", ";q=0", ";q=1.001", ";q=", "*/*", "text/*", ",", ";", "\"", "\\", " ", "=", "é",
        ],
        usualSeconds: 0.5,
        times: [
            LinearTime([
                .repeated("commas", ","), .repeated("semicolons", ";", prefix: "a"), .repeated("blanks", " "),
                .repeated("blanks between letters", " ", prefix: "a", suffix: "b"), .repeated("quotes", "\""),
                .repeated("escapes in quotes", "\\\"", prefix: "a;version=\""),
                .repeated("elements", "application/openmetrics-text;version=1.0.0;q=0.1,"),
                .repeated("parameters", ";version=1.0.0", prefix: "application/openmetrics-text"),
                .repeated("weights", ";q=0.5", prefix: "text/plain"),
                .repeated("digits", "1", prefix: "text/plain;q=0."),
                .repeated("equals signs", "=", prefix: "a;"), .repeated("combining marks", "\u{301}", prefix: "a"),
                .repeated("flags", "\u{1f1e9}"),
                .repeated("marks in another order", "\u{301}\u{316}", prefix: "a"),
            ]) { _ = TelemetryWire.prefersOpenMetrics(accept: String(decoding: $0, as: UTF8.self)) }
        ]
    ) { bytes throws(Violation) in
        let text = String(decoding: bytes, as: UTF8.self)
        let isNamed = text.lowercased().contains("application/openmetrics-text")
        let isPreferred = TelemetryWire.prefersOpenMetrics(accept: text)
        try require(!isPreferred || isNamed, "OpenMetrics for a scraper that does not list it")
        // Appending an element that lists it with full weight must select it, unless a quoted string is open.
        guard !bytes.contains(UInt8(ascii: "\"")) else { return }
        try require(
            TelemetryWire.prefersOpenMetrics(accept: text + ",application/openmetrics-text"),
            "no OpenMetrics for a scraper that lists it")
    }

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
        usualSeconds: 0.5,
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
