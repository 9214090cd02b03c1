import CloakroomCore
import Logging
import NIOCore
import NIOSSL

/// Keeps records in a Valkey or Redis server, version 6 or later, that several gateways share.
///
/// Every change of one session is one script, so it is atomic among replicas. The server forgets records by itself, by its
/// own clock; what is over for a gateway is kept some minutes longer, so that it can say why.
///
/// What the server's user has to be allowed, where the prefix is `cloakroom`:
///
///     ACL SETUSER cloakroom on >password ~cloakroom:* resetchannels -@all +hello +client|tracking +client|setname
///         +ping +role +evalsha +eval +exists +type +hset +hget +hmget +hgetall +hexists +hincrby +pexpire +pttl
///         +del +get +set +time +zadd +zrem +zrange +zscore +zremrangebyscore
///
/// Keys are safe for a cluster, but its redirections (`MOVED`, `ASK`) are not followed: a single primary is needed, with or
/// without sentinels.
struct ValkeyRecordStore: SessionRecordStore {
    /// Commands that are sent at once where there are many: others get their turn in between.
    private static let commandsAtOnce = 500
    /// Names stay this much longer in the index of their account than the server keeps their records, because what moves
    /// a record's end is late by what commands take.
    private static let indexMargin = Duration.seconds(3_600)
    /// The longest that anything is kept.
    private static let longest = Duration.seconds(10 * 365 * 86_400)

    let keys: ValkeyKeys
    let link: ValkeyClient

    /// Makes a store. It connects once it runs.
    /// - Parameters:
    ///   - plan: With at least one address.
    ///   - tls: How TLS is spoken where the plan has it; protocols of the application layer are left out.
    ///   - group: One of its event loops has the connection.
    /// - Throws: NIOSSL's error if there can be no such TLS.
    init(_ configuration: ValkeyConfiguration, tls: TLSConfiguration?, group: any EventLoopGroup, logger: Logger) throws
    {
        keys = ValkeyKeys(prefix: configuration.prefix)
        let context: NIOSSLContext? = try tls.map { configuration in
            var configuration = configuration
            configuration.applicationProtocols = []
            return try NIOSSLContext(configuration: configuration)
        }
        link = ValkeyClient(configuration, tls: context, eventLoop: group.next(), logger: logger)
    }

    /// Always 0: how many there are only the server could tell, and only by looking at all of its keys. The bound on
    /// sessions is the server's `maxmemory` therefore, with `maxmemory-policy noeviction`: a server that is full is the
    /// error `full`.
    var count: Int { 0 }

    func insert(_ record: SessionRecord, keepUntil: Timestamp, now: Timestamp) async throws(SessionStoreError) -> Bool {
        // The index first. It is in another slot, so the two are not one step; a name without a record does no harm, and a
        // record without a name would be a session that signing out everywhere does not reach.
        try await index(record, now: now, full: true)
        var arguments: [ValkeyCommand.Part] = [.integer(Self.time(keepUntil - now + Self.tombstoneLifetime))]
        arguments += RecordEncoding.parts(record) + ["u", .integer(record.lastUsedAt.milliseconds)]
        let response = try await run(SessionScripts.insert, [keys.session(record.key.id)], arguments, full: true)
        if response == .integer(1) { return true }
        // The session of that name is somebody else's, so it must not stand among this account's.
        for hash in record.indexHashes {
            _ = try await ask(ValkeyCommand("ZREM", .text(keys.sessions(of: hash)), .text("\(record.key.id)")))
        }
        return false
    }

    func read(_ id: SessionID, now: Timestamp) async throws(SessionStoreError) -> RecordLookup {
        let reply = await link.send([ValkeyCommand("HGETALL", .text(keys.session(id)))]).first
        switch try Self.record(reply, id) {
        case .none:
            let reason = try await ask(ValkeyCommand("GET", .text(keys.ended(id))))
            guard let reason = reason.text else { return .none }
            // A later release may know more reasons; the session is over all the same.
            return .ended(SessionEndReason(rawValue: reason) ?? .revoked)
        case let lookup: return lookup
        }
    }

    func replace(_ record: SessionRecord, fence: UInt64?, now: Timestamp) async throws(SessionStoreError)
        -> RecordUpdateResult
    {
        let id = record.key.id
        // The account's hash may be a new one, under a new secret. First the index again.
        try await index(record, now: now)
        let arguments: [ValkeyCommand.Part] =
            [
                .text(fence.map(String.init) ?? ""), .text(String(record.version &- 1)),
                .bytes(record.key.bytes), .integer(record.lastUsedAt.milliseconds),
            ] + RecordEncoding.parts(record)
        let response = try await run(SessionScripts.replace, [keys.session(id), keys.lease(id)], arguments)
        switch response.text {
        // A name that stays in the index of the hash before does no harm, and runs out. Taking it away might come after
        // another replica, whose secrets are in another order, has put it there anew.
        case "done": return .done
        case "changed": return .changed
        case "fenced": return .fenced
        default: return .notFound
        }
    }

    func remove(
        _ id: SessionID, reason: SessionEndReason, condition: (version: UInt64, fence: UInt64)?, now: Timestamp
    ) async throws(SessionStoreError) -> RecordRemovalResult {
        let response = try await run(
            SessionScripts.remove, [keys.session(id), keys.lease(id), keys.ended(id)],
            [
                .text(reason.rawValue), .integer(Self.time(Self.tombstoneLifetime)),
                .text(condition.map { String($0.version) } ?? ""), .text(condition.map { String($0.fence) } ?? ""),
            ])
        if response.text == "changed" { return .changed }
        guard let elements = response.elements, let record = RecordEncoding.record(elements, id: id) else {
            return .notFound
        }
        // Its name in the index does no harm any more, so that this is done is not waited for with the answer at stake.
        for hash in record.indexHashes {
            _ = try? await ask(ValkeyCommand("ZREM", .text(keys.sessions(of: hash)), .text("\(id)")))
        }
        return .removed(record)
    }

    func touch(_ touches: [RecordTouch]) async throws(SessionStoreError) {
        var rest = touches[...]
        while !rest.isEmpty {
            let calls = rest.prefix(Self.commandsAtOnce).map { touch in
                let time = Self.time(touch.keepUntil - touch.lastUsedAt + Self.tombstoneLifetime)
                return ScriptCall(
                    keys: [keys.session(touch.id)],
                    arguments: [.integer(touch.lastUsedAt.milliseconds), .integer(time)])
            }
            rest = rest.dropFirst(calls.count)
            for reply in await run(SessionScripts.touch, calls) { _ = try Self.value(reply) }
        }
    }

    func lease(_ id: SessionID, for duration: Duration, now: Timestamp) async throws(SessionStoreError) -> LeaseResult {
        let response = try await run(
            SessionScripts.lease, [keys.session(id), keys.lease(id)], [.integer(Self.time(duration))])
        guard let fence = response.text.flatMap({ UInt64($0) }) else { return .notFound }
        return fence == 0 ? .heldByOther : .acquired(RefreshLease(fence: fence))
    }

    func release(_ id: SessionID, fence: UInt64) async throws(SessionStoreError) {
        _ = try await run(SessionScripts.release, [keys.lease(id)], [.text(String(fence))])
    }

    func records(of account: UInt64, now: Timestamp) async throws(SessionStoreError) -> [SessionRecord] {
        let names = try await ask(ValkeyCommand("ZRANGE", .text(keys.sessions(of: account)), "0", "-1"))
        var rest = (names.elements ?? []).compactMap { $0.text.flatMap { SessionID($0) } }[...]
        var records: [SessionRecord] = []
        while !rest.isEmpty {
            let ids = rest.prefix(Self.commandsAtOnce)
            rest = rest.dropFirst(ids.count)
            let replies = await link.send(ids.map { ValkeyCommand("HGETALL", .text(keys.session($0))) })
            for (id, reply) in zip(ids, replies) {
                // A name may stand here still whose record has another hash by now.
                guard case .record(let record) = try Self.record(reply, id), record.indexHashes.contains(account)
                else { continue }
                records.append(record)
            }
        }
        return records
    }

    func run(_ changes: any RecordChangeDelegate, idleTimeout: Duration) async {
        await link.run(InvalidationForwarder(keys: keys, changes: changes))
    }

    private func index(_ record: SessionRecord, now: Timestamp, full: Bool = false) async throws(SessionStoreError) {
        let time = Self.time(record.expiresAt - now + Self.tombstoneLifetime + Self.indexMargin)
        for hash in record.indexHashes {
            _ = try await run(
                SessionScripts.index, [keys.sessions(of: hash)], [.text("\(record.key.id)"), .integer(time)], full: full
            )
        }
    }

    /// Milliseconds of keeping something: at least 1, and never more than the server can count.
    static func time(_ duration: Duration) -> Int64 {
        max(1, min(duration, longest).wholeMilliseconds)
    }

    private static func record(
        _ reply: Result<RESPValue, ValkeyCommandError>?, _ id: SessionID
    ) throws(SessionStoreError) -> RecordLookup {
        if case .failure(.rejected(let error)) = reply, error.code == "WRONGTYPE" { return .unreadable }
        guard let elements = try value(reply).elements else { return .unreadable }
        if elements.isEmpty { return .none }
        return RecordEncoding.record(elements, id: id).map { .record($0) } ?? .unreadable
    }
}
