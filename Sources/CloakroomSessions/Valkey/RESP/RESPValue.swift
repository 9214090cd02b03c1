import NIOCore

/// A value of RESP3, or of RESP2 as far as it is still used. Never printed, because it may contain session data.
enum RESPValue: Sendable, Equatable {
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
    /// Keys and values in turn, as in RESP2.
    case map([RESPValue])
    case set([RESPValue])
    /// A message that the server sends without a command.
    case push([RESPValue])
}

extension RESPValue {
    /// The bytes of any string type.
    var bytes: ByteBuffer? {
        switch self {
        case .blob(let buffer), .verbatim(_, let buffer): buffer
        case .simple(let text): ByteBuffer(string: text)
        default: nil
        }
    }

    /// The length of all strings, and of the storage of the values themselves, in bytes.
    var size: Int {
        let members = elements ?? []
        return members.reduce(MemoryLayout<RESPValue>.stride + (bytes?.readableBytes ?? 0)) { $0 + $1.size }
    }

    /// The text of any string type.
    var text: String? {
        if case .simple(let text) = self { return text }
        return bytes.map { String(ascii: $0.readableBytesView) }
    }

    /// The members of any aggregate.
    var elements: [RESPValue]? {
        switch self {
        case .array(let elements), .set(let elements), .map(let elements): elements
        default: nil
        }
    }
}

extension RESPValue {
    /// The value with a name, if the members are names and values in turn; `nil` if there is none.
    func member(_ name: String) -> RESPValue? {
        let elements = elements ?? []
        for index in stride(from: 0, to: elements.count - 1, by: 2) where elements[index].text == name {
            return elements[index + 1]
        }
        return nil
    }
}

extension String {
    /// A text of a server, whose bytes that are not ASCII become DEL: the texts that are read here have none, and
    /// to compare or search one of combining marks takes more than linear time.
    init(ascii bytes: some Collection<UInt8>) {
        if bytes.allSatisfy({ $0 < 0x80 }) {
            self.init(decoding: bytes, as: UTF8.self)
        } else {
            self.init(decoding: bytes.map { $0 < 0x80 ? $0 : 0x7f }, as: UTF8.self)
        }
    }
}

/// An error reply: the command was not executed.
struct RESPError: Error, Sendable, Equatable {
    /// The first word, such as `WRONGTYPE`, which identifies the error: at most 32 capital letters, digits and
    /// underscores. `UNKNOWN` for another text, which no server sends, because logs and commands print the code.
    let code: String
    /// The other server, for the codes `MOVED` and `ASK`.
    let redirection: ClusterRedirection?

    /// Parses the line of an error.
    init(line: String) {
        let words = line.split(separator: " ", maxSplits: 1)
        var code = words.first.map(String.init) ?? "ERR"
        // Redis 6 wraps the error of a command that a script called: "ERR Error running script (…): … -OOM command …".
        if code == "ERR", line.hasPrefix("ERR Error running script"),
            let inner = line.split(separator: " ", maxSplits: 32).first(where: { $0.hasPrefix("-") })
        {
            code = String(inner.dropFirst())
        }
        if code == "ERR", Self.isMissingPermission(line) { code = "NOPERM" }
        self.code = Self.isCode(code) ? code : "UNKNOWN"
        redirection = code == "MOVED" || code == "ASK" ? ClusterRedirection(line: line) : nil
    }

    /// Whether a script called a command, or used a key, that its user may not: such errors have no code of their own.
    private static func isMissingPermission(_ line: String) -> Bool {
        let text = "The user executing the script can't "
        return line.hasPrefix("ERR ACL failure in script") || line.hasPrefix("ERR \(text)")
            || line.hasPrefix("ERR Error running script") && line.contains(": \(text)")
    }

    private static func isCode(_ word: String) -> Bool {
        (1...32).contains(word.utf8.count)
            && word.utf8.allSatisfy { (0x41...0x5a).contains($0) || (0x30...0x39).contains($0) || $0 == 0x5f }
    }
}
