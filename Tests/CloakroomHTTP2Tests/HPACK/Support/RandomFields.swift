import TestSupport

/// Random fields of messages: some recur, some are unique, a few are large or invalid.
struct RandomFields {
    var random: SeededGenerator
    private var number = 0

    init(seed: UInt64) {
        random = SeededGenerator(seed: seed)
    }

    mutating func int(_ range: Range<Int>) -> Int { Int.random(in: range, using: &random) }

    /// Whether an event with a probability in percent happens.
    mutating func chance(_ percent: Int) -> Bool { int(0..<100) < percent }

    private mutating func pick<T>(_ values: [T]) -> T { values[int(0..<values.count)] }

    /// The fields of a request; most requests are valid.
    mutating func request() -> [(name: String, value: String)] {
        var fields: [(name: String, value: String)] = [
            (":method", pick(["GET", "GET", "POST", "OPTIONS", "CONNECT"])), (":scheme", pick(["https", "http"])),
            (":path", pick(["/", "/index.html", "/a/b?c=d", "*", "/" + text(int(0..<120))])),
        ]
        if !chance(10) { fields.append((":authority", pick(["a.test", "b.test:8443", ""]))) }
        if chance(10) { fields.append((":protocol", pick(["websocket", "other"]))) }
        if chance(30) { fields.shuffle(using: &random) }
        for _ in 0..<int(0..<12) { fields.append(field()) }
        if chance(5) { fields.swapAt(int(0..<fields.count), int(0..<fields.count)) }
        if chance(3) { fields.remove(at: int(0..<fields.count)) }
        return fields
    }

    /// A field with a name in lower case.
    mutating func field() -> (name: String, value: String) {
        number += 1
        switch int(0..<40) {
        case 0: return ("x-unique", "value-\(number)")
        case 1: return ("x-\(number)", text(int(0..<100)))
        case 2: return ("x-large", String(repeating: text(1), count: int(0..<6_000)))
        case 3: return (pick(["connection", "X-Upper", "a b", "te", "upgrade", ":status", ""]), "value")
        case 4: return ("x-invalid", pick([" a", "a ", "a\u{7f}", "a\r\nb: c", "\u{0}"]))
        case 5: return ("te", "trailers")
        case 6: return ("host", pick(["a.test", "b.test:8443", "c.test"]))
        case 7...14: return ("cookie", pick(["a=b", "c=d", "session=" + text(30), ""]))
        case 15...20: return ("accept", pick(["*/*", "text/html", "application/json, text/plain;q=0.9"]))
        case 21...25: return ("user-agent", pick(["curl/8.5.0", "Mozilla/5.0 (X11; Linux x86_64)"]))
        case 26...30: return ("accept-encoding", pick(["gzip, deflate", "gzip, deflate, br, zstd"]))
        default:
            return (
                pick(["content-type", "origin", "x-a", "x-b", "priority", "accept"]), pick(["u=1, i", "é", "", "a\\b"])
            )
        }
    }

    /// Printable characters.
    mutating func text(_ count: Int) -> String {
        String(decoding: (0..<count).map { _ in UInt8.random(in: 0x21...0x7e, using: &random) }, as: UTF8.self)
    }
}
