import CloakroomCore
import NIOCore
import Synchronization

/// The encoding of a record as the fields of a hash; `n`, the hash of the typed name, and `p`, the hash of the
/// session at the provider, are optional. Numbers are decimal;
/// `k` is 32 bytes, `d` and `o` are sealed. Fields that a later release adds are ignored and preserved.
enum RecordEncoding {
    /// Fields and values of everything but the time of use and the fence.
    static func parts(_ record: SessionRecord) -> [ValkeyCommand.Part] {
        let name: [ValkeyCommand.Part] = record.name.map { ["n", .text(String($0))] } ?? []
        let provider: [ValkeyCommand.Part] = record.provider.map { ["p", .text(String($0))] } ?? []
        return name + provider + [
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
            provider: number(fields["p"], UInt64.self), createdAt: Timestamp(milliseconds: createdAt),
            expiresAt: Timestamp(milliseconds: expiresAt), lastUsedAt: Timestamp(milliseconds: lastUsedAt),
            version: version, contents: Array(buffer: contents), client: Array(buffer: client))
    }

    private static func number<Number: FixedWidthInteger>(_ text: ByteBuffer?, _: Number.Type) -> Number? {
        text.flatMap { Number(String(buffer: $0)) }
    }
}

/// The names of the keys. The part in braces determines the slot in a cluster, so all keys of one session share a slot.
struct ValkeyKeys: Sendable {
    private let prefix: String

    init(prefix: String) {
        self.prefix = prefix
    }

    func session(_ id: SessionID) -> String { "\(prefix):{\(id)}:session" }
    func lease(_ id: SessionID) -> String { "\(prefix):{\(id)}:lease" }
    func ended(_ id: SessionID) -> String { "\(prefix):{\(id)}:ended" }

    /// The index of an account's sessions, which is in another slot than the sessions.
    func sessions(of account: UInt64) -> String { "\(prefix):{a\(SessionID(account))}:sessions" }

    /// The index of the sessions of a session at a provider.
    func sessions(ofProviderSession hash: UInt64) -> String { "\(prefix):{p\(SessionID(hash))}:sessions" }

    /// The names of all indexes with a record.
    func indexes(of record: SessionRecord) -> [String] {
        record.indexHashes.map(sessions(of:)) + (record.provider.map { [sessions(ofProviderSession: $0)] } ?? [])
    }

    func mark(_ key: MarkKey) -> String { "\(prefix):{m\(key.scope.rawValue)\(SessionID(key.hash))}:mark" }

    func throttle(_ key: ThrottleKey) -> String {
        "\(prefix):{t\(key.scope.rawValue)\(SessionID(key.hash))}:throttle"
    }

    /// Parses the name of a record's key.
    /// - Returns: `nil` for all other keys.
    func session(named key: ByteBuffer) -> SessionID? {
        let text = String(buffer: key)
        let (head, tail) = ("\(prefix):{", "}:session")
        guard text.hasPrefix(head), text.hasSuffix(tail) else { return nil }
        return SessionID(text.dropFirst(head.count).dropLast(tail.count))
    }
}

/// Forwards the server's invalidations of keys that were read here to the session cache.
///
/// Invalidations of leases, reasons, marks and the throttle's keys arrive as well, because the server tracks every read. They
/// are ignored: these values are not cached.
struct InvalidationForwarder: ValkeyPushDelegate {
    let keys: ValkeyKeys
    let changes: any RecordChangeDelegate
    private let trust = SlotTrust()

    init(keys: ValkeyKeys, changes: any RecordChangeDelegate) {
        self.keys = keys
        self.changes = changes
    }

    func slotsChanged(_ slots: [Range<Int>], areTrusted: Bool, afterOutage: Bool) {
        if let isUp = trust.change(slots, areTrusted) { changes.connectionChanged(isUp: isUp) }
    }

    func pushed(_ message: [RESPValue]) {
        guard message.count >= 2, message[0].text == "invalidate" else { return }
        guard let names = message[1].elements else {
            // Without names: the whole database was emptied.
            changes.allRecordsChanged()
            return
        }
        for name in names {
            if let id = name.bytes.flatMap(keys.session(named:)) { changes.recordChanged(id) }
        }
    }
}

/// Whether all slots are trusted.
private final class SlotTrust: Sendable {
    private let state = Mutex<(areTrusted: [Bool], count: Int)>(([], 0))

    /// - Returns: Whether all slots are trusted, if data that was read before is stale.
    func change(_ slots: [Range<Int>], _ areTrusted: Bool) -> Bool? {
        state.withLock { state in
            if state.areTrusted.isEmpty { state.areTrusted = Array(repeating: false, count: HashSlot.count) }
            let before = state.count
            for slot in slots.joined() where state.areTrusted[slot] != areTrusted {
                state.areTrusted[slot] = areTrusted
                state.count += areTrusted ? 1 : -1
            }
            if !areTrusted { return before == HashSlot.count ? false : nil }
            return state.count == HashSlot.count ? true : nil
        }
    }
}
