import CloakroomCore
import NIOCore

/// The encoding of a record as the fields of a hash; `n`, the hash of the typed name, and `p`, the hash of the
/// session at the provider, are optional. So are `b`, `bn` and `bp`, the microseconds of ``RecordBirth`` for the account,
/// the name and the session at the provider. Numbers are decimal;
/// `k` is 32 bytes, `d` and `o` are sealed. Fields that a later release adds are ignored and preserved.
enum RecordEncoding {
    /// Fields and values of everything but the time of use and the fence.
    static func parts(_ record: SessionRecord) -> [ValkeyCommand.Part] {
        let name: [ValkeyCommand.Part] = record.name.map { ["n", .text(String($0))] } ?? []
        let provider: [ValkeyCommand.Part] = record.provider.map { ["p", .text(String($0))] } ?? []
        return name + provider + birth(record.birth) + [
            "k", .bytes(record.key.bytes), "a", .text(String(record.account)),
            "c", .integer(record.createdAt.milliseconds), "e", .integer(record.expiresAt.milliseconds),
            "v", .text(String(record.version)), "d", .bytes(record.contents), "o", .bytes(record.client),
        ]
    }

    private static func birth(_ birth: RecordBirth) -> [ValkeyCommand.Part] {
        [("b", birth.account), ("bn", birth.name), ("bp", birth.provider)].flatMap { field, time in
            time.map { [.text(field), .integer($0)] } ?? []
        }
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
            provider: number(fields["p"], UInt64.self), createdAt: SessionTime(milliseconds: createdAt),
            expiresAt: SessionTime(milliseconds: expiresAt), lastUsedAt: SessionTime(milliseconds: lastUsedAt),
            version: version, contents: Array(buffer: contents), client: Array(buffer: client),
            birth: RecordBirth(
                account: number(fields["b"], Int64.self), name: number(fields["bn"], Int64.self),
                provider: number(fields["bp"], Int64.self)))
    }

    /// The fields of a record for a listing: all but the data that only the ticket opens.
    static let listed = ["k", "a", "n", "p", "c", "e", "u", "v", "o", "b", "bn", "bp"]

    /// Parses a record without its contents.
    /// - Parameter values: Of the fields ``listed``.
    /// - Returns: `nil` if it is not a valid record.
    static func listed(_ values: [RESPValue], id: SessionID) -> SessionRecord? {
        guard values.count == listed.count else { return nil }
        return record(zip(listed, values).flatMap { [.simple($0), $1] } + [.simple("d"), .simple("")], id: id)
    }

    /// Parses the account and the times of a record.
    /// - Parameter values: Of the fields `a`, `c`, `e` and `u`.
    /// - Returns: `nil` if it is not a valid record.
    static func candidate(_ values: [RESPValue], id: SessionID) -> SurplusRule.Candidate? {
        guard values.count == 4, let account = number(values[0].bytes, UInt64.self),
            let createdAt = number(values[1].bytes, Int64.self), let expiresAt = number(values[2].bytes, Int64.self),
            let lastUsedAt = number(values[3].bytes, Int64.self)
        else { return nil }
        return SurplusRule.Candidate(
            id: id, account: account, createdAt: SessionTime(milliseconds: createdAt),
            expiresAt: SessionTime(milliseconds: expiresAt), lastUsedAt: SessionTime(milliseconds: lastUsedAt))
    }

    private static func number<Number: FixedWidthInteger>(_ text: ByteBuffer?, _: Number.Type) -> Number? {
        text.flatMap { Number(String(buffer: $0)) }
    }
}

/// The names of the keys. The part in braces determines the slot in a cluster, so all keys of one session share a slot.
struct ValkeyKeys: Sendable {
    let prefix: String

    func session(_ id: SessionID) -> String { "\(prefix):{\(id)}:session" }
    func lease(_ id: SessionID) -> String { "\(prefix):{\(id)}:lease" }
    func ended(_ id: SessionID) -> String { "\(prefix):{\(id)}:ended" }

    /// The index of an account's sessions, which is in another slot than the sessions.
    func sessions(of account: UInt64) -> String { "\(prefix):{a\(SessionID(account))}:sessions" }

    /// The index of the sessions of a session at a provider.
    func sessions(ofProviderSession hash: UInt64) -> String { "\(prefix):{p\(SessionID(hash))}:sessions" }

    func sessions(in index: RecordIndex) -> String {
        switch index {
        case .account(let hash): sessions(of: hash)
        case .providerSession(let hash): sessions(ofProviderSession: hash)
        }
    }

    /// The names of all indexes with a record.
    func indexes(of record: SessionRecord) -> [String] { record.indexes.map(sessions(in:)) }

    /// The cutoff of an index, in the slot of the index.
    func cutoff(_ index: RecordIndex) -> String {
        switch index {
        case .account(let hash): "\(prefix):{a\(SessionID(hash))}:cutoff"
        case .providerSession(let hash): "\(prefix):{p\(SessionID(hash))}:cutoff"
        }
    }

    func mark(_ key: MarkKey) -> String { "\(prefix):{m\(key.scope.rawValue)\(SessionID(key.hash))}:mark" }

    /// All keys of one address, or of one IPv6 /48, are in one slot.
    func throttle(_ key: ThrottleKey) -> String {
        "\(prefix):{t\(SessionID(key.group))}:\(key.scope.rawValue)\(SessionID(key.hash)):throttle"
    }

    /// The number of slots that the keys of rate limits are in, and so of scripts in a settlement.
    static let rateSlots: UInt64 = 16

    func rate(_ key: UInt64) -> String { "\(prefix):{r\(key >> 32 % Self.rateSlots)}:\(SessionID(key)):rate" }

    /// The set of the gateways that settle rate limits.
    var gateways: String { "\(prefix):{r}:gateways" }

    /// Parses the name of a record's key.
    /// - Returns: `nil` for all other keys.
    func session(named key: ByteBuffer) -> SessionID? {
        tag(of: String(ascii: key.readableBytesView), "}:session").flatMap { SessionID($0) }
    }

    /// Parses the name of a cutoff's key.
    /// - Returns: `nil` for all other keys.
    func cutoff(named key: ByteBuffer) -> RecordIndex? {
        guard let tag = tag(of: String(ascii: key.readableBytesView), "}:cutoff"),
            let hash = SessionID(tag.dropFirst())?.value
        else { return nil }
        return switch tag.first {
        case "a": .account(hash)
        case "p": .providerSession(hash)
        default: nil
        }
    }

    private func tag(of name: String, _ tail: String) -> Substring? {
        let head = "\(prefix):{"
        guard name.hasPrefix(head), name.hasSuffix(tail) else { return nil }
        return name.dropFirst(head.count).dropLast(tail.count)
    }
}

/// Forwards the server's invalidations of keys that were read here to the session cache.
///
/// Invalidations of leases, reasons, marks and the throttle's keys arrive as well, because the server tracks every read. They
/// are ignored: these values are not cached.
struct InvalidationForwarder: ValkeyPushDelegate {
    let keys: ValkeyKeys
    let changes: any RecordChangeDelegate

    func slotsChanged(_ slots: [Range<Int>], areTrusted: Bool, afterOutage: Bool) {
        changes.partitionsChanged(slots, areTrusted: areTrusted, afterOutage: afterOutage)
    }

    func pushed(_ message: [RESPValue]) {
        guard message.count >= 2, message[0].text == "invalidate" else { return }
        guard let names = message[1].elements else {
            // Without names: the whole database was emptied.
            changes.allRecordsChanged()
            return
        }
        for name in names {
            if let id = name.bytes.flatMap(keys.session(named:)) {
                changes.recordChanged(id)
            } else if let index = name.bytes.flatMap(keys.cutoff(named:)) {
                changes.cutoffChanged(index)
            }
        }
    }
}
