import NIOCore

/// A reply of a Valkey server in its protocol RESP2, for tests that control a server themselves.
package indirect enum RESPReply: Sendable, Equatable {
    case text(String)
    case error(String)
    case integer(Int)
    case list([RESPReply])
    case none

    package var text: String? { if case .text(let text) = self { text } else { nil } }
    package var integer: Int? { if case .integer(let number) = self { number } else { nil } }
    package var list: [RESPReply]? { if case .list(let elements) = self { elements } else { nil } }

    /// Sends one command on a new connection and returns its reply.
    /// - Throws: ``TimeoutError`` if there is no complete reply in time, an error of NIO if no process listens.
    package static func ask(
        port: Int, _ words: [String], password: String? = nil, within limit: Duration = .seconds(10)
    ) async throws -> RESPReply {
        let peer = try await RawPeer.connect(port: port)
        let commands = (password.map { [["AUTH", $0]] } ?? []) + [words]
        peer.send(commands.map(encode).joined())
        let name = words.prefix(2).joined(separator: " ")
        let replies = try await stopping {
            try? await peer.close()
        } after: {
            try await eventually("the reply to \(name) of port \(port)", within: limit) {
                try Self.replies(in: peer.unread, count: commands.count, isClosed: peer.isClosed)
            }
        }
        return replies.last ?? .none
    }

    private static func encode(_ words: [String]) -> String {
        "*\(words.count)\r\n" + words.map { "$\($0.utf8.count)\r\n\($0)\r\n" }.joined()
    }

    /// The first replies in received text, once all of them are complete.
    private static func replies(in text: String, count: Int, isClosed: Bool) throws -> [RESPReply]? {
        var rest = ByteBuffer(string: text)
        var replies: [RESPReply] = []
        while replies.count < count, let reply = RESPReply(reading: &rest) { replies.append(reply) }
        if replies.count == count { return replies }
        if isClosed { throw ChannelError.eof }
        return nil
    }

    /// Fails if the reply is not complete yet.
    private init?(reading bytes: inout ByteBuffer) {
        let view = bytes.readableBytesView
        guard let end = view.firstIndex(of: UInt8(ascii: "\n")), let kind = view.first else { return nil }
        let line = String(decoding: view[(view.startIndex + 1)..<end], as: UTF8.self)
            .trimmingSuffix { $0 == "\r" }
        bytes.moveReaderIndex(to: end + 1)
        switch kind {
        case UInt8(ascii: "+"): self = .text(line)
        case UInt8(ascii: "-"): self = .error(line)
        case UInt8(ascii: ":"): self = .integer(Int(line) ?? 0)
        case UInt8(ascii: "$"):
            guard let count = Int(line), count >= 0 else {
                self = .none
                return
            }
            guard let text = bytes.readString(length: count), bytes.readString(length: 2) != nil else { return nil }
            self = .text(text)
        default:
            guard let count = Int(line), count >= 0 else {
                self = .none
                return
            }
            var elements: [RESPReply] = []
            while elements.count < count {
                guard let element = RESPReply(reading: &bytes) else { return nil }
                elements.append(element)
            }
            self = .list(elements)
        }
    }
}

extension String {
    fileprivate func trimmingSuffix(while condition: (Character) -> Bool) -> String {
        var text = self[...]
        while let last = text.last, condition(last) { text.removeLast() }
        return String(text)
    }
}
