import CloakroomCore
import NIOCore

/// The encoding of a record as the fields of a hash; `n`, the hash of the typed name, is optional. Numbers are decimal;
/// `k` is 32 bytes, `d` and `o` are sealed. Fields that a later release adds are ignored and preserved.
enum RecordEncoding {
    /// Fields and values of everything but the time of use and the fence.
    static func parts(_ record: SessionRecord) -> [ValkeyCommand.Part] {
        let name: [ValkeyCommand.Part] = record.name.map { ["n", .text(String($0))] } ?? []
        return name + [
            "k", .bytes(record.key.bytes), "a", .text(String(record.account)),
            "c", .integer(record.createdAt.milliseconds), "e", .integer(record.expiresAt.milliseconds),
            "v", .text(String(record.version)), "d", .bytes(record.contents), "o", .bytes(record.client),
        ]
    }

    /// Parses a record.
    /// - Parameter elements: Fields and values in turn.
    /// - Returns: `nil` if it is not a valid record.
    static func record(_ elements: [RESPValue], id: SessionID) -> SessionRecord? {
        var fields: [String: ByteBuffer] = [:]
        for index in stride(from: 0, to: elements.count - 1, by: 2) {
            if let name = elements[index].text { fields[name] = elements[index + 1].bytes }
        }
        guard let key = fields["k"].flatMap({ SessionKey(bytes: Array(buffer: $0)) }), key.id == id,
            let account = number(fields["a"], UInt64.self), let version = number(fields["v"], UInt64.self),
            let createdAt = number(fields["c"], Int64.self), let expiresAt = number(fields["e"], Int64.self),
            let lastUsedAt = number(fields["u"], Int64.self),
            let contents = fields["d"], let client = fields["o"]
        else { return nil }
        return SessionRecord(
            key: key, account: account, name: number(fields["n"], UInt64.self),
            createdAt: Timestamp(milliseconds: createdAt), expiresAt: Timestamp(milliseconds: expiresAt),
            lastUsedAt: Timestamp(milliseconds: lastUsedAt), version: version, contents: Array(buffer: contents),
            client: Array(buffer: client))
    }

    private static func number<Number: FixedWidthInteger>(_ text: ByteBuffer?, _: Number.Type) -> Number? {
        text.flatMap { Number(String(buffer: $0)) }
    }
}
