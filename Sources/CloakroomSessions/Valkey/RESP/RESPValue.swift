import NIOCore

/// What a server says, in RESP3 and in what is left of RESP2. Nothing of it is ever printed: it may be somebody's session.
enum RESPValue: Sendable, Equatable {
    /// A key of a map with its value.
    struct Pair: Sendable, Equatable {
        let key: RESPValue
        let value: RESPValue
    }

    case null
    case simple(String)
    case error(RESPError)
    case integer(Int64)
    case double(Double)
    case boolean(Bool)
    /// Decimal digits, of any number.
    case bigNumber(String)
    case blob(ByteBuffer)
    /// - Parameter format: Three characters, such as `txt`.
    case verbatim(format: String, ByteBuffer)
    case array([RESPValue])
    case map([Pair])
    case set([RESPValue])
    /// Not an answer to anything: the server says it by itself.
    case push([RESPValue])
}

extension RESPValue {
    /// The bytes of anything that is a string.
    var bytes: ByteBuffer? {
        switch self {
        case .blob(let buffer), .verbatim(_, let buffer): buffer
        case .simple(let text): ByteBuffer(string: text)
        default: nil
        }
    }

    /// The text of anything that is a string.
    var text: String? {
        if case .simple(let text) = self { return text }
        return bytes.map { String(buffer: $0) }
    }

    /// The members of anything that is a row. A map is its keys and values in turn, as RESP2 has it.
    var elements: [RESPValue]? {
        switch self {
        case .array(let elements), .set(let elements): elements
        case .map(let pairs): pairs.flatMap { [$0.key, $0.value] }
        default: nil
        }
    }
}

/// An answer that says that a command was not done.
struct RESPError: Error, Sendable, Equatable {
    /// The first word, such as `WRONGTYPE`, which is what errors are told apart by.
    let code: String

    /// Reads an error's line.
    init(line: String) {
        let words = line.split(separator: " ", maxSplits: 1)
        var code = words.first.map(String.init) ?? "ERR"
        // Redis 6 wraps the error of a command that a script called: "ERR Error running script (…): … -OOM command …".
        if code == "ERR", line.hasPrefix("ERR Error running script"),
            let inner = line.split(separator: " ").first(where: { $0.hasPrefix("-") })
        {
            code = String(inner.dropFirst())
        }
        self.code = code
    }
}
