import CloakroomCore
import CloakroomWire

extension FuzzTarget {
    /// A request target (RFC 9112 §3.2) and the normal form of its path.
    static let requestTargets = FuzzTarget(
        "targets",
        words: [
            "/", "//", "/.", "/..", "%2e", "%2F", "%5c", "%00", "%23", "%3b", "%41", "%2b", "+", "%c3%a9", "%c0%ae",
            "%25",
            "%252e", "?", "#", ";", "\\", "*", "http://", "HTTPS://", "[::1]", ":80", "@", "é", "/videos/1",
        ],
        times: [
            LinearTime([
                .repeated("slashes", "/"), .repeated("segments", "/a"), .repeated("dots", "/."),
                .repeated("ways back", "/.."),
                .repeated("dot segments", "/a/.."), .repeated("escaped dots", "/%2e"),
                .repeated("escapes", "%41", prefix: "/"),
                .repeated("escaped slashes", "%2f", prefix: "/"), .repeated("percent signs", "%", prefix: "/"),
                .repeated("escaped percent signs", "%25", prefix: "/"), .repeated("question marks", "?", prefix: "/"),
                .repeated("semicolons", ";", prefix: "/"), .repeated("one long segment", "a", prefix: "/"),
                .repeated("a long query", "a=b&", prefix: "/?"), .repeated("an authority", "a", prefix: "http://"),
            ]) { _ = TargetChecks.parse($0) }
        ]
    ) { bytes throws(Violation) in
        guard let (target, path) = TargetChecks.parse(bytes) else { return }
        if target.isAsterisk {
            try require(bytes == [UInt8(ascii: "*")], "an invalid asterisk form")
            return
        }
        try TargetChecks.checkPath(path)
        let query = Array(bytes[target.query.start..<target.query.end])
        try require(query.isEmpty || query.first == UInt8(ascii: "?"), "a query without question mark")
        try require(!query.contains { $0 <= 0x20 || $0 >= 0x7f || $0 == UInt8(ascii: "#") }, "a query with controls")
        if let authority = target.authority {
            let text = Array(bytes[authority.start..<authority.end])
            try require(Authority.isValid(text.span) && !text.contains(UInt8(ascii: "@")), "an invalid authority")
        } else {
            try require(bytes.first == UInt8(ascii: "/"), "a path that does not begin with a slash")
        }
        // The upstream receives the normal form, and must parse the same.
        let sent = (path.isEmpty ? [UInt8(ascii: "/")] : path) + query
        guard let (again, secondPath) = TargetChecks.parse(sent) else { throw Violation("the normal form is rejected") }
        try require(
            secondPath == (path.isEmpty ? [UInt8(ascii: "/")] : path), "the normal form has another normal form")
        try require(
            Array(sent[again.query.start..<again.query.end]) == query && again.authority == nil,
            "the normal form has another query")
    }
}

private enum TargetChecks {
    static func parse(_ bytes: [UInt8]) -> (target: RequestTarget, path: [UInt8])? {
        var scratch: [UInt8] = Array("left from before".utf8)
        guard let target = try? RequestTarget.parse(bytes.span, scratch: &scratch) else { return nil }
        return (target, target.isPathRewritten ? scratch : Array(bytes[target.path.start..<target.path.end]))
    }

    static func checkPath(_ path: [UInt8]) throws(Violation) {
        try require(path.isEmpty || path.first == UInt8(ascii: "/"), "a path that does not begin with a slash")
        try require(path.allSatisfy { $0 > 0x20 && $0 < 0x7f && !"#?;\\".utf8.contains($0) }, "an invalid character")
        // An upstream may decode once, decode twice, or fold separators. None of it may change the segments.
        let segments = path.dropFirst().split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        try require(segments.dropLast().allSatisfy { !$0.isEmpty }, "two slashes in a row")
        for segment in segments {
            let decoded = try decoded(segment)
            try require(decoded != Array(".".utf8) && decoded != Array("..".utf8), "a dot segment")
            try require(
                !decoded.contains { $0 < 0x20 || $0 == 0x7f || "/\\#;".utf8.contains($0) }, "an encoded separator")
        }
    }

    private static func decoded(_ segment: ArraySlice<UInt8>) throws(Violation) -> [UInt8] {
        var result: [UInt8] = []
        var rest = segment
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                result.append(byte)
                continue
            }
            guard rest.count >= 2, let value = UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16) else {
                throw Violation("a percent sign without digits")
            }
            rest = rest.dropFirst(2)
            result.append(value)
        }
        return result
    }
}
