import CloakroomCore
import NIOCore

/// A record as the fields of a hash. Numbers are decimal; `k` is 32 bytes, `d` and `o` are sealed. Fields that a later
/// release adds are left alone by this one.
enum RecordFields {
    /// Fields and values of everything but the time of use and the fence.
    static func parts(_ record: SessionRecord) -> [ValkeyCommand.Part] {
        [
            "k", .bytes(bytes(record.key)), "a", .text(String(record.account)),
            "c", .integer(record.createdAt.milliseconds), "e", .integer(record.expiresAt.milliseconds),
            "v", .text(String(record.version)), "d", .bytes(record.contents), "o", .bytes(record.client),
        ]
    }

    /// Reads a record.
    /// - Parameter elements: Fields and values in turn.
    /// - Returns: `nil` if it is none of ours.
    static func record(_ elements: [RESPValue], id: SessionID) -> SessionRecord? {
        var fields: [String: ByteBuffer] = [:]
        for index in stride(from: 0, to: elements.count - 1, by: 2) {
            if let name = elements[index].text { fields[name] = elements[index + 1].bytes }
        }
        guard let key = fields["k"].flatMap(key), key.id == id,
            let account = number(fields["a"], UInt64.self), let version = number(fields["v"], UInt64.self),
            let createdAt = number(fields["c"], Int64.self), let expiresAt = number(fields["e"], Int64.self),
            let lastUsedAt = number(fields["u"], Int64.self),
            let contents = fields["d"], let client = fields["o"]
        else { return nil }
        return SessionRecord(
            key: key, account: account, createdAt: Timestamp(milliseconds: createdAt),
            expiresAt: Timestamp(milliseconds: expiresAt), lastUsedAt: Timestamp(milliseconds: lastUsedAt),
            version: version, contents: Array(buffer: contents), client: Array(buffer: client))
    }

    static func bytes(_ key: SessionKey) -> [UInt8] {
        var buffer = ByteBuffer()
        for word in [key.word0, key.word1, key.word2, key.word3] { buffer.writeInteger(word) }
        return Array(buffer: buffer)
    }

    private static func key(_ bytes: ByteBuffer) -> SessionKey? {
        var bytes = bytes
        guard bytes.readableBytes == 32, let word0 = bytes.readInteger(as: UInt64.self),
            let word1 = bytes.readInteger(as: UInt64.self), let word2 = bytes.readInteger(as: UInt64.self),
            let word3 = bytes.readInteger(as: UInt64.self)
        else { return nil }
        return SessionKey(word0, word1, word2, word3)
    }

    private static func number<Number: FixedWidthInteger>(_ text: ByteBuffer?, _: Number.Type) -> Number? {
        text.flatMap { Number(String(buffer: $0)) }
    }
}
