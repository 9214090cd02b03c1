import CloakroomCore

/// Repeats the recent writes of this process on a server that may have lost them.
///
/// Replication is asynchronous: a new primary lacks the writes that had not reached it. The server has acknowledged them,
/// so without this a session that was ended would be valid again, a refreshed one would have the spent refresh token,
/// and a new one would be missing.
struct WriteReassertion: ValkeyFailoverDelegate {
    /// The number of commands in a batch.
    static let commandsAtOnce = 256

    let journal: WriteJournal
    let keys: ValkeyKeys
    let log: DurabilityLog

    /// Repeats the writes of slots for at most ``limit``. What the server does not accept in that time is repeated later:
    /// ``repeatUntilAccepted(over:_:)``.
    func serverReplaced(
        _ slots: [Range<Int>],
        send: @escaping @Sendable ([ValkeyCommand]) async -> [Result<RESPValue, ValkeyCommandError>]
    ) async {
        let pass = await attempt(slots, journal.serverReplaced(slots), until: .now + Self.limit, send)
        log.reasserted(pass.counts, unwritten: pass.unaccepted, reason: pass.reason)
    }

    /// What one repetition of the writes of slots has done.
    struct Pass: Sendable {
        /// The writes that the server did not have.
        var counts: [ReassertedWrite: Int] = [:]
        /// The sessions whose records were written.
        var changed: [SessionID] = []
        /// The number of writes that were not sent, have no reply, or were rejected.
        var unaccepted = 0
        /// The slots of those.
        var unwritten: Set<UInt16> = []
        /// The code of the last error.
        var reason: String?
    }

    /// Repeats the writes of slots once.
    /// - Parameters:
    ///   - number: Of the repetition, from ``WriteJournal/serverReplaced(_:)`` or ``WriteJournal/willRepeat(_:)``.
    ///   - end: When the attempt ends; `nil` if it goes on until all writes were sent.
    func attempt(
        _ slots: [Range<Int>], _ number: UInt32, until end: ContinuousClock.Instant?,
        _ send: @Sendable ([ValkeyCommand]) async -> [Result<RESPValue, ValkeyCommandError>]
    ) async -> Pass {
        let start = ContinuousClock.now
        let entries = journal.entries(in: slots, now: start)
        var calls = ReassertionCalls(entries, keys: keys, slots: slots, start: start, journal: journal)
        var pass = Pass()
        if calls.needsTime {
            do throws(ValkeyCommandError) {
                calls.time = try await Self.time(send)
            } catch {
                // Cutoffs whose time is unknown need it.
                pass.failed(error, slots: calls.slotsThatNeedTime)
            }
        }
        while !Task.isCancelled, end.map({ ContinuousClock.now < $0 }) ?? true {
            let batch = calls.next(Self.commandsAtOnce)
            guard !batch.isEmpty else { break }
            let replies = await ValkeyScript.run(batch.map { ($0.script, $0.keys, $0.arguments) }, send)
            for (call, reply) in zip(batch, replies) {
                switch reply {
                case .success(.integer(let change)) where change > 0:
                    pass.counts[call.kind(change), default: 0] += 1
                    if let session = call.session { pass.changed.append(session) }
                case .success: break
                case .failure(let error): pass.failed(error, slots: [call.slot])
                }
            }
            guard Self.rejectsAll(replies) else { continue }
            // The server may permit the commands of other scripts.
            guard Self.arePermissionsMissing(replies) else { break }
            calls.skip(Set(batch.map(\.script.name)))
        }
        pass.unaccepted += calls.remaining
        pass.unwritten.formUnion(calls.remainingSlots)
        journal.didRepeat(slots, number, unwritten: pass.unwritten)
        return pass
    }

    /// Whether further commands are pointless now: the connection has ended, or the server accepts no write.
    private static func rejectsAll(_ replies: [Result<RESPValue, ValkeyCommandError>]) -> Bool {
        if case .failure(let error)? = replies.last, error == .disconnected || error == .notConnected { return true }
        return replies.allSatisfy { reply in
            guard case .failure(let error) = reply else { return false }
            guard case .rejected(let error) = error else { return true }
            return switch SessionStoreError.Reason(code: error.code) {
            case .readonly, .loading, .full, .overloaded, .noAuth, .noPermission: true
            // The other errors concern one slot or one key.
            case .clusterDown: !["MOVED", "ASK", "TRYAGAIN"].contains(error.code)
            default: false
            }
        }
    }

    private static func arePermissionsMissing(_ replies: [Result<RESPValue, ValkeyCommandError>]) -> Bool {
        replies.allSatisfy { reply in
            guard case .failure(.rejected(let error)) = reply else { return false }
            return SessionStoreError.Reason(code: error.code) == .noPermission
        }
    }

    /// The server's time, and the latest instant at which it was that.
    private static func time(
        _ send: @Sendable ([ValkeyCommand]) async -> [Result<RESPValue, ValkeyCommandError>]
    ) async throws(ValkeyCommandError) -> ReassertionCalls.ServerTime {
        let invalid = ValkeyCommandError.rejected(RESPError(line: "ERR no time"))
        guard let reply = await send([ValkeyCommand("TIME")]).first else { throw invalid }
        guard let parts = try reply.get().elements, parts.count == 2,
            let seconds = parts[0].text.flatMap({ Int64($0) }),
            let microseconds = parts[1].text.flatMap({ Int64($0) })
        else { throw invalid }
        // Far above all times that a server may have, and far below an overflow.
        guard (0..<1_000_000_000_000).contains(seconds), (0..<1_000_000).contains(microseconds) else { throw invalid }
        return ReassertionCalls.ServerTime(
            microseconds: seconds * 1_000_000 + microseconds, before: ContinuousClock.now)
    }

}

extension WriteReassertion.Pass {
    /// Whatever the error is, the server may lack the write, and may accept it later: an operator corrects permissions, or
    /// another server takes its place.
    fileprivate mutating func failed(_ error: ValkeyCommandError, slots: [UInt16]) {
        if case .rejected(let error) = error { reason = error.code }
        unaccepted += slots.count
        unwritten.formUnion(slots)
    }
}

/// A call of a script that repeats a write.
struct ReassertionCall: Sendable {
    let write: ReassertedWrite
    let script: ValkeyScript
    let keys: [String]
    let arguments: [ValkeyCommand.Part]
    /// The session whose record it writes.
    var session: SessionID?

    /// The slot of all its keys.
    var slot: UInt16 { keys.first.map(HashSlot.slot(of:)) ?? 0 }

    /// What was repeated.
    /// - Parameter change: The result of the script.
    func kind(_ change: Int64) -> ReassertedWrite {
        write == .update && change == 2 ? .insert : write
    }
}

/// The calls for journaled writes, made in batches: all at once would need the memory of the journal again.
struct ReassertionCalls {
    private var rest: ArraySlice<WriteJournal.Entry>
    /// Calls of an entry that did not fit into the last batch.
    private var pending: [ReassertionCall] = []
    /// The names of scripts that the server rejects, and the calls of them that were not made.
    private var skippedScripts: Set<String> = []
    private var skipped: (count: Int, slots: Set<UInt16>) = (0, [])
    private let keys: ValkeyKeys
    /// Whether each slot is one of those that are repeated; empty if all are.
    private let hasSlot: [Bool]
    private let start: ContinuousClock.Instant
    private let journal: WriteJournal?

    /// A time of the server's clock.
    struct ServerTime: Sendable {
        var microseconds: Int64
        /// An instant after that.
        var before: ContinuousClock.Instant
    }

    /// The clocks of two servers may differ by this much. A session that began during that time before a request survives
    /// if the index has lost it, rather than one that began after it ends.
    static let clockMargin = Duration.seconds(1)

    /// The slots of cutoffs whose time is unknown.
    let slotsThatNeedTime: [UInt16]
    /// Whether ``time`` is needed.
    var needsTime: Bool { !slotsThatNeedTime.isEmpty }
    /// Without it, cutoffs whose time is unknown are not set.
    var time: ServerTime?

    /// - Parameters:
    ///   - entries: At least those of the slots. Of a record, only the calls for keys in the slots are made.
    ///   - start: The time by which the ages of the entries were determined.
    ///   - journal: Entries that it does not contain any more are skipped; `nil` for none.
    init(
        _ entries: [WriteJournal.Entry], keys: ValkeyKeys, slots: [Range<Int>], start: ContinuousClock.Instant = .now,
        journal: WriteJournal? = nil
    ) {
        rest = entries[...]
        self.start = start
        self.journal = journal
        slotsThatNeedTime = entries.compactMap { if case .cutoffRequest = $0.write { $0.slot } else { nil } }
        self.keys = keys
        var hasSlot: [Bool] = []
        if !slots.contains(HashSlot.all) {
            hasSlot = Array(repeating: false, count: HashSlot.count)
            for slot in slots.joined() { hasSlot[slot] = true }
        }
        self.hasSlot = hasSlot
    }

    /// The number of writes of which not all calls were made.
    var remaining: Int { rest.count + pending.count + skipped.count }

    /// The slots of these writes.
    var remainingSlots: Set<UInt16> {
        var slots = skipped.slots.union(pending.map(\.slot))
        for entry in rest {
            if hasSlot(entry.slot) { slots.insert(entry.slot) }
            for other in entry.otherSlots where hasSlot(other) { slots.insert(other) }
        }
        return slots
    }

    /// No further calls of these scripts are made.
    mutating func skip(_ scripts: Set<String>) { skippedScripts.formUnion(scripts) }

    /// The next calls, at most a number; empty at the end.
    mutating func next(_ limit: Int) -> [ReassertionCall] {
        var calls = takeSkipped(pending)
        pending = []
        while calls.count < limit, let entry = rest.popFirst() {
            // A lease may have been released meanwhile, and the insertion of a record may have failed.
            guard journal?.contains(entry.write) ?? true else { continue }
            calls += takeSkipped(self.calls(entry).filter { hasSlot($0.slot) })
        }
        if calls.count > limit {
            pending = Array(calls[limit...])
            calls.removeSubrange(limit...)
        }
        return calls
    }

    /// Counts the calls that are skipped.
    /// - Returns: The others.
    private mutating func takeSkipped(_ calls: [ReassertionCall]) -> [ReassertionCall] {
        guard !skippedScripts.isEmpty else { return calls }
        return calls.filter { call in
            guard skippedScripts.contains(call.script.name) else { return true }
            skipped.count += 1
            skipped.slots.insert(call.slot)
            return false
        }
    }

    private func hasSlot(_ slot: UInt16) -> Bool {
        hasSlot.isEmpty || hasSlot[Int(slot)]
    }

    private func calls(_ entry: WriteJournal.Entry) -> [ReassertionCall] {
        let call: ReassertionCall
        switch entry.write {
        case .end(let id, let reason):
            let lifetime = ValkeyRecordStore.time(ValkeyRecordStore.tombstoneLifetime)
            call = ReassertionCall(
                write: .end, script: ReassertionScripts.end, keys: [keys.session(id), keys.lease(id), keys.ended(id)],
                arguments: [.text(reason.rawValue), .integer(lifetime)])
        case .lease(let id, let fence, let duration):
            guard duration > entry.age else { return [] }
            call = ReassertionCall(
                write: .lease, script: ReassertionScripts.lease, keys: [keys.session(id), keys.lease(id)],
                arguments: [.text(String(fence)), .integer(ValkeyRecordStore.time(duration - entry.age))])
        case .mark(let key, let time, let lifetime):
            guard lifetime > entry.age else { return [] }
            call = ReassertionCall(
                write: .mark, script: SessionScripts.mark, keys: [keys.mark(key)],
                arguments: [.integer(time.milliseconds), .integer(ValkeyRecordStore.time(lifetime - entry.age)), "1"])
        case .cutoff(let cutoff):
            guard cutoff.lifetime > entry.age else { return [] }
            call = ReassertionCall(
                write: .cutoff, script: ReassertionScripts.cutoff, keys: [cutoff.key],
                arguments: [
                    .text(String(cutoff.time)), .text(cutoff.kept),
                    .text(cutoff.createdBefore.map(String.init) ?? "-"),
                    .integer(ValkeyRecordStore.time(cutoff.lifetime - entry.age)),
                    .text(cutoff.keptBirth.map(String.init) ?? ""),
                ])
        case .cutoffRequest(let request):
            guard request.lifetime > entry.age, let time else { return [] }
            // The time at which it was sent, or earlier.
            let age = entry.age + (time.before - start) + Self.clockMargin
            let sentAt = max(0, time.microseconds - age.wholeMilliseconds * 1_000)
            call = ReassertionCall(
                write: .cutoff, script: ReassertionScripts.cutoffRequest, keys: [request.key],
                arguments: [
                    .integer(sentAt), .text(request.kept.map { "\($0)" } ?? "-"),
                    .integer(ValkeyRecordStore.time(request.lifetime - entry.age)),
                ])
        case .record(let record):
            return calls(record, age: entry.age)
        }
        return [call]
    }

    private func calls(_ record: JournaledRecord, age: Duration) -> [ReassertionCall] {
        guard record.lifetime > age else { return [] }
        let arguments: [ValkeyCommand.Part] =
            [
                .bytes(record.key), .text(String(record.version)), .text(String(record.fence)),
                .integer(record.lastUsedAt.milliseconds), .integer(ValkeyRecordStore.time(record.lifetime - age)),
                .integer(Int64(record.fields.count)),
            ] + record.fields + record.insertedFields
        let update = ReassertionCall(
            write: .update, script: ReassertionScripts.record, keys: [keys.session(record.id), keys.ended(record.id)],
            arguments: arguments,
            session: record.id)
        // In other slots than the record, and maybe at another server.
        let lifetime = ValkeyRecordStore.time(record.indexLifetime - age)
        let indexes = record.indexes.map {
            ReassertionCall(
                write: .index, script: ReassertionScripts.index, keys: [$0],
                arguments: [.text("\(record.id)"), .integer(lifetime)])
        }
        return indexes + [update]
    }
}
