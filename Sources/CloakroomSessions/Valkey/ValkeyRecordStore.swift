import CloakroomCore
import Logging
import NIOCore
import NIOSSL

/// Stores records in a Valkey or Redis server, version 6 or later, that several gateways share.
///
/// Every change of one session is one script, so it is atomic among replicas. The server deletes records by its own
/// clock, some minutes after they have expired for a gateway, so that the gateway can report the reason.
///
/// The required permissions of the server's user, for the prefix `cloakroom`:
///
///     ACL SETUSER cloakroom on >password ~cloakroom:* resetchannels -@all +hello +client|tracking +client|setname
///         +ping +role +evalsha +eval +exists +type +hset +hget +hmget +hgetall +hexists +hincrby +pexpire +pttl
///         +del +get +set +time +zadd +zrem +zrange +zscore +zremrangebyscore +wait +cluster|slots +asking
///
/// A single server and sentinels need neither `cluster|slots` nor `asking`. All keys of a command are in one hash slot,
/// so the store works on a cluster.
///
/// Folder `Valkey/`: sealed records in a server that several gateways share; each change is one script.
struct ValkeyRecordStore: SessionRecordStore {
    /// The maximum number of commands sent together; other operations run in between.
    private static let commandsAtOnce = 500
    /// The maximum number of ids of an index whose records are read. An account has 10,000 sessions at most; ids of
    /// sessions that have ended by the idle timeout remain, and those of other accounts with the same typed name.
    private static let maximumListed = 100_000
    /// The maximum size of a record in a listing, and of all: about 1 KiB and 10 MiB are usual for 10,000 sessions.
    private static let maximumRecord = 4 * 1024
    private static let maximumListing = 32 << 20
    /// Ids stay this much longer in the index of their account than the server keeps their records, because updates of
    /// a record's end are delayed by the duration of commands.
    private static let indexMargin = Duration.seconds(3_600)
    /// The maximum time to keep a value.
    private static let longest = Duration.seconds(10 * 365 * 86_400)

    /// ``maximumListed``, unless a test sets another.
    var listLimit = Self.maximumListed
    /// ``maximumListing``, unless a test sets another.
    var listingLimit = Self.maximumListing
    let keys: ValkeyKeys
    let link: ValkeyClient
    /// What was written recently, to repeat it after a failover.
    let journal: WriteJournal
    private let reassertion: WriteReassertion

    /// Creates a store. It connects in ``run(_:)``.
    /// - Parameters:
    ///   - configuration: With at least one address.
    ///   - tls: The TLS configuration, if TLS is configured; ALPN protocols are removed.
    ///   - group: One of its event loops runs the connection.
    ///   - events: Called for writes that a failover may lose or has lost.
    /// - Throws: NIOSSL's error if the TLS configuration is invalid.
    init(
        _ configuration: ValkeyConfiguration, tls: TLSConfiguration?, group: any EventLoopGroup, logger: Logger,
        events: SessionStoreCallbacks = SessionStoreCallbacks()
    ) throws {
        keys = ValkeyKeys(prefix: configuration.prefix)
        let context: NIOSSLContext? = try tls.map { configuration in
            var configuration = configuration
            configuration.applicationProtocols = []
            return try NIOSSLContext(configuration: configuration)
        }
        let log = DurabilityLog(logger, events)
        journal = WriteJournal(keys: keys, onDisplaced: { log.displaced($0) })
        link = ValkeyClient(
            configuration, tls: context, eventLoop: group.next(), logger: logger, durabilityLog: log,
            onUnconfirmed: events.onUnconfirmedPrimary)
        reassertion = WriteReassertion(journal: journal, keys: keys, log: log)
    }

    /// Always 0, because counting would require scanning all keys of the server. The number of sessions is therefore
    /// limited by the server's `maxmemory`, with `maxmemory-policy noeviction`: a full server causes the error `full`.
    var count: Int { 0 }

    func insert(
        _ record: SessionRecord, limit: Int, keepUntil: SessionTime, now: SessionTime
    ) async throws(SessionStoreError) -> RecordInsertResult {
        let result: RecordInsertResult
        do throws(SessionStoreError) {
            result = try await insertIndexed(record, limit: limit, keepUntil: keepUntil, now: now)
        } catch {
            // A full server accepts ids, because their script begins with a deletion. Each rejected sign-in would leave
            // one for as long as a session lasts.
            if error.kind == .full { _ = await link.send(removals(of: record)) }
            throw error
        }
        guard result == .taken else { return result }
        // The id belongs to a session of another account, so it must not be in this account's index.
        for removal in removals(of: record) { _ = try await ask(removal) }
        return .taken
    }

    /// The commands that remove a record's id from its indexes, which are in different slots.
    private func removals(of record: SessionRecord) -> [ValkeyCommand] {
        keys.indexes(of: record).map { ValkeyCommand("ZREM", key: $0, .text("\(record.key.id)")) }
    }

    /// Enters a record into its indexes, and inserts it.
    ///
    /// The first of the two also compares the index with the limit, which saves sign-ins a round trip. So the ids include
    /// those of sessions whose records are written at the same time.
    private func insertIndexed(
        _ record: SessionRecord, limit: Int, keepUntil: SessionTime, now: SessionTime
    ) async throws(SessionStoreError) -> RecordInsertResult {
        // The index first. It is in another slot, so the two writes are not atomic. An id without a record is harmless;
        // a record without an id would be a session that signing out everywhere misses.
        var record = record
        let mayExceed: Bool
        (record.birth, mayExceed) = try await index(record, limit: limit, now: now)
        var arguments: [ValkeyCommand.Part] = [.integer(Self.time(keepUntil - now + Self.tombstoneLifetime))]
        arguments += RecordEncoding.parts(record) + ["u", .integer(record.lastUsedAt.milliseconds)]
        // Kept before it is sent: the server may be replaced before its reply is here.
        let save = journal.saved(
            JournaledRecord(
                record, lifetime: keepUntil - now + Self.tombstoneLifetime, fields: RecordEncoding.parts(record),
                indexes: keys.indexes(of: record),
                indexLifetime: record.expiresAt - now + Self.tombstoneLifetime + Self.indexMargin))
        do throws(SessionStoreError) {
            let response = try await run(
                SessionScripts.insert, [keys.session(record.key.id)], arguments, full: true, isDurable: true)
            if response == .integer(1) { return .done(mayExceed: mayExceed) }
            // Anything but 0 leaves unknown whether the record was inserted.
            guard response == .integer(0) else { throw SessionStoreError(.unavailable, reason: .protocolError) }
        } catch {
            // Its client gets no ticket, so it must not be repeated.
            if let save { journal.rejected(save) }
            throw error
        }
        if let save { journal.rejected(save) }
        return .taken
    }

    func read(_ id: SessionID, now: SessionTime) async throws(SessionStoreError) -> RecordLookup {
        let repetition = journal.repetition(of: partition(of: id))
        let reply = await link.send([ValkeyCommand("HGETALL", key: keys.session(id))]).first
        // Before the reply is used: a server that rejects or does not have an end can be read nevertheless.
        if case .success? = reply, let reason = journal.end(of: id, since: repetition) { return .ended(reason) }
        switch try Self.record(reply, id) {
        case .none:
            let reason = try await ask(ValkeyCommand("GET", key: keys.ended(id)))
            if reason == .null { return .none }
            guard let reason = reason.text else { throw SessionStoreError(.unavailable, reason: .protocolError) }
            // A later release may have more reasons; the session has ended in any case.
            return .ended(SessionEndReason(rawValue: reason) ?? .revoked)
        case let lookup: return lookup
        }
    }

    func replace(
        _ record: SessionRecord, keepUntil: SessionTime, fence: UInt64?, now: SessionTime
    ) async throws(SessionStoreError) -> RecordUpdateResult {
        let id = record.key.id
        guard journal.end(of: id) == nil else { return .notFound }
        let attempt = attempt(in: partition(of: id))
        // The account's hash may be a new one, under a new secret. The index is again written first.
        _ = try await index(record, now: now)
        let arguments: [ValkeyCommand.Part] =
            [
                .text(fence.map(String.init) ?? ""), .text(String(record.version &- 1)),
                .bytes(record.key.bytes), .integer(record.lastUsedAt.milliseconds),
                .integer(Self.time(keepUntil - now + Self.tombstoneLifetime)),
            ] + RecordEncoding.parts(record)
        let journaled = JournaledRecord(
            record, fence: fence, lifetime: keepUntil - now + Self.tombstoneLifetime,
            fields: RecordEncoding.parts(record))
        // Before it is sent, if it may have new tokens. A record without a lease has none, and may be lost.
        let save = fence == nil ? nil : journal.saved(journaled)
        let response = try await run(
            SessionScripts.replace, [keys.session(id), keys.lease(id)], arguments, isDurable: true)
        // An id that stays in the index of the previous hash is harmless and expires. Removing it could happen after
        // another replica, whose secrets are in another order, has added it again.
        if response.text == "done" {
            journal.saved(journaled)
            try check(attempt)
            return .done
        }
        // Any other reply leaves unknown whether it was saved.
        let result: RecordUpdateResult =
            switch response.text {
            case "changed": .changed
            case "fenced": .fenced
            case "gone": .notFound
            default: throw SessionStoreError(.unavailable, reason: .protocolError)
            }
        if let save { journal.rejected(save) }
        return result
    }

    func remove(
        _ id: SessionID, reason: SessionEndReason, condition: (version: UInt64, fence: UInt64)?, now: SessionTime
    ) async throws(SessionStoreError) -> RecordRemovalResult {
        let call = ScriptCall(
            keys: [keys.session(id), keys.lease(id), keys.ended(id)],
            arguments: [
                .text(reason.rawValue), .integer(Self.time(Self.tombstoneLifetime)),
                .text(condition.map { String($0.version) } ?? ""), .text(condition.map { String($0.fence) } ?? ""),
            ])
        let attempt = attempt(in: partition(of: id))
        let reply = await run(SessionScripts.remove, [call], isDurable: true).first
        // The caller wanted the end in any case, so it is also journaled if its result is unknown. Except if the session
        // only seems idle: its uses may not be recorded yet, so the server's successor has to be asked again.
        if case .failure(.disconnected) = reply, condition == nil, reason != .expiredIdle {
            journal.ended(id, reason: reason)
        }
        let response = try Self.value(reply)
        if response.text == "changed" { return .changed }
        guard response == .null || response.elements != nil else {
            throw SessionStoreError(.unavailable, reason: .protocolError)
        }
        if response != .null {
            journal.ended(id, reason: reason)
        } else if condition == nil {
            journal.endedWithoutRecord(id, reason: reason)
        }
        try check(attempt)
        guard let elements = response.elements, let record = RecordEncoding.record(elements, id: id) else {
            return .notFound
        }
        // The id in an index is harmless now, so it does not matter whether these succeed. They are in different slots.
        _ = await link.send(removals(of: record))
        return .removed(record)
    }

    @discardableResult
    func touch(
        _ touches: [RecordTouch], granularity: Duration
    ) async throws(SessionStoreError) -> UnwrittenTouches? {
        var rest = touches[...]
        var unwritten = UnwrittenTouches()
        var hasReply = false
        while !rest.isEmpty {
            let some = rest.prefix(Self.commandsAtOnce)
            rest = rest.dropFirst(some.count)
            let calls = some.map { touch in
                let time = Self.time(touch.keepUntil - touch.lastUsedAt + Self.tombstoneLifetime)
                return ScriptCall(
                    keys: [keys.session(touch.id)],
                    arguments: [
                        .integer(touch.lastUsedAt.milliseconds), .integer(time), .integer(Self.time(granularity)),
                    ])
            }
            for (touch, reply) in zip(some, await run(SessionScripts.touch, calls)) {
                do throws(SessionStoreError) {
                    if try Self.value(reply) == .integer(0) { unwritten.superseded.insert(touch.id) }
                    hasReply = true
                } catch {
                    // Only the servers of some slots may be unavailable.
                    unwritten.ids.insert(touch.id)
                    unwritten.error = error
                }
            }
        }
        if let error = unwritten.error, !hasReply { throw error }
        return unwritten.isEmpty ? nil : unwritten
    }

    func lease(_ id: SessionID, for duration: Duration, now: SessionTime) async throws(SessionStoreError) -> LeaseResult
    {
        guard journal.end(of: id) == nil else { return .notFound }
        let attempt = attempt(in: partition(of: id))
        let response = try await run(
            SessionScripts.lease, [keys.session(id), keys.lease(id)], [.integer(Self.time(duration))], isDurable: true)
        if response == .null { return .notFound }
        guard let fence = response.text.flatMap({ UInt64($0) }) else {
            throw SessionStoreError(.unavailable, reason: .protocolError)
        }
        guard fence > 0 else { return .heldByOther }
        journal.leased(id, fence: fence, for: duration)
        do throws(SessionStoreError) {
            try check(attempt)
        } catch {
            // The server may have it nevertheless.
            try? await release(id, fence: fence)
            throw error
        }
        return .acquired(RefreshLease(fence: fence))
    }

    func release(_ id: SessionID, fence: UInt64) async throws(SessionStoreError) {
        journal.released(id, fence: fence)
        _ = try await run(SessionScripts.release, [keys.lease(id)], [.text(String(fence))])
    }

    func records(in index: RecordIndex, now: SessionTime) async throws(SessionStoreError) -> [SessionRecord] {
        let index = keys.sessions(in: index)
        // One more than the maximum. The member `born`, which is no id, is the last one.
        let reply = try await ask(ValkeyCommand("ZRANGE", key: index, "0", .integer(Int64(listLimit))))
        var rest = (reply.elements ?? []).compactMap { $0.text.flatMap { SessionID($0) } }[...]
        guard rest.count <= listLimit else { throw SessionStoreError(.unavailable, reason: .protocolError) }
        var records: [SessionRecord] = []
        var size = 0
        while !rest.isEmpty {
            let ids = rest.prefix(Self.commandsAtOnce)
            rest = rest.dropFirst(ids.count)
            let replies = await link.send(ids.map(listing))
            for (id, reply) in zip(ids, replies) {
                if case .failure(.rejected(let error)) = reply, error.code == "WRONGTYPE" { continue }
                let value = try Self.value(reply)
                // The index may still contain an id whose record has another hash by now.
                guard let values = value.elements, let record = RecordEncoding.listed(values, id: id),
                    keys.indexes(of: record).contains(index)
                else { continue }
                size += value.size
                guard size <= listingLimit else {
                    throw SessionStoreError(.unavailable, reason: .protocolError)
                }
                records.append(record)
            }
        }
        return records
    }

    /// The command that reads a record for a listing: without its tokens, which a listing does not show.
    private func listing(_ id: SessionID) -> ValkeyCommand {
        let fields = RecordEncoding.listed.map(ValkeyCommand.Part.text)
        let key = keys.session(id)
        var command = ValkeyCommand("HMGET", slot: HashSlot.slot(of: key), [.text(key)] + fields)
        command.replyLimit = Self.maximumRecord
        return command
    }

    func run(_ changes: any RecordChangeDelegate) async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await reassertion.repeatUntilAccepted(over: link, changes) }
            await link.run(InvalidationForwarder(keys: keys, changes: changes), failover: reassertion)
            group.cancelAll()
        }
    }

    /// Enters a record into its indexes.
    /// - Parameter limit: For a new record, the number of sessions that its account and name may have. An out-of-memory
    ///   error of the server is then reported as `full`. `nil` for a changed record.
    /// - Returns: The times at which a new record was entered, and whether an index has more ids than the limit. A changed
    ///   record keeps its times, also in an index that it did not have before: it may have ended by a cutoff meanwhile.
    private func index(
        _ record: SessionRecord, limit: Int? = nil, now: SessionTime
    ) async throws(SessionStoreError) -> (RecordBirth, mayExceed: Bool) {
        let time = Self.time(record.expiresAt - now + Self.tombstoneLifetime + Self.indexMargin)
        let indexes = record.indexes
        let calls = indexes.map { index in
            let known: Int64? = limit == nil ? record.birth.time(in: index, of: record) ?? 0 : nil
            return ScriptCall(
                keys: [keys.sessions(in: index), keys.cutoff(index)],
                arguments: [
                    .text("\(record.key.id)"), .integer(time), .text(known.map { String($0) } ?? ""),
                    .text(limit.map { String(max(0, $0)) } ?? ""),
                ])
        }
        var birth = RecordBirth()
        var mayExceed = false
        for (index, reply) in zip(indexes, await run(SessionScripts.index, calls)) {
            let response = try Self.value(reply, full: limit != nil)
            guard limit != nil else { continue }
            guard let elements = response.elements, elements.count == 2,
                let time = elements[0].text.flatMap({ Int64($0) })
            else { throw SessionStoreError(.unavailable) }
            switch index {
            case .account(let hash) where hash == record.account: birth.account = time
            case .account: birth.name = time
            case .providerSession:
                birth.provider = time
                continue
            }
            if elements[1] != .integer(0) { mayExceed = true }
        }
        return (birth, mayExceed)
    }

    /// The time to keep a value, in milliseconds: at least 1, and at most what the server accepts.
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
