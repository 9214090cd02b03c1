/// The static table (RFC 7541, appendix A), as finished lines.
package struct StaticTable: Sendable {
    /// A line and its position in ``bytes``.
    struct Entry {
        var start: Int
        var line: FieldLine
    }

    /// The number of entries; their indices are 1...61.
    static let count = 61
    static let shared = StaticTable()

    let bytes: [UInt8]
    /// The entry at index 0 is not valid in a block.
    let entries: [Entry]

    private init() {
        let classifier = FieldLineClassifier()
        var bytes: [UInt8] = []
        var entries: [Entry] = []
        for (name, value) in [("", "")] + Self.fields {
            let start = bytes.count
            bytes += "\(name): \(value)\r\n".utf8
            let line = classifier.line(
                bytes.span, at: start, nameCount: name.utf8.count, valueCount: value.utf8.count)
            entries.append(Entry(start: start, line: line))
        }
        self.bytes = bytes
        self.entries = entries
    }

    /// The names and values, from index 1 on.
    package static let fields: [(name: String, value: String)] = [
        (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"), (":path", "/index.html"),
        (":scheme", "http"), (":scheme", "https"), (":status", "200"), (":status", "204"), (":status", "206"),
        (":status", "304"), (":status", "400"), (":status", "404"), (":status", "500"), ("accept-charset", ""),
        ("accept-encoding", "gzip, deflate"), ("accept-language", ""), ("accept-ranges", ""), ("accept", ""),
        ("access-control-allow-origin", ""), ("age", ""), ("allow", ""), ("authorization", ""), ("cache-control", ""),
        ("content-disposition", ""), ("content-encoding", ""), ("content-language", ""), ("content-length", ""),
        ("content-location", ""), ("content-range", ""), ("content-type", ""), ("cookie", ""), ("date", ""),
        ("etag", ""), ("expect", ""), ("expires", ""), ("from", ""), ("host", ""), ("if-match", ""),
        ("if-modified-since", ""), ("if-none-match", ""), ("if-range", ""), ("if-unmodified-since", ""),
        ("last-modified", ""), ("link", ""), ("location", ""), ("max-forwards", ""), ("proxy-authenticate", ""),
        ("proxy-authorization", ""), ("range", ""), ("referer", ""), ("refresh", ""), ("retry-after", ""),
        ("server", ""), ("set-cookie", ""), ("strict-transport-security", ""), ("transfer-encoding", ""),
        ("user-agent", ""), ("vary", ""), ("via", ""), ("www-authenticate", ""),
    ]
}
