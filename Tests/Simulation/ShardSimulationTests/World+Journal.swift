import CloakroomCore
import TestSupport

@testable import CloakroomSessions

/// One repetition of the writes of a gateway's ``WriteJournal`` at a server.
struct Repetition {
    let gateway: Int
    let process: Int
    let node: Int
    let ranges: [Range<Int>]
    /// The number that the journal has given it.
    let number: UInt32
    /// The number of ``ClusterTopology/Action/restore(_:_:_:)``; `nil` for one that follows later.
    let restoration: UInt32?
    var calls: ReassertionCalls
    var pending = 0
    /// The slots with writes that were not accepted.
    var unwritten: Set<UInt16> = []
}

/// Sends the calls that ``ReassertionCalls`` makes of the journal, as the gateway's store does.
extension World {
    func restore(_ gateway: Gateway, _ number: UInt32, _ ranges: [Range<Int>], at node: Int) {
        if mutant == .reassertAfterTrust {
            queue.push(.restored(gateway: gateway.number, process: gateway.process, number: number), at: now)
        }
        beginRepetition(gateway, ranges, at: node, gateway.journal.serverReplaced(ranges), restoration: number)
    }

    private func beginRepetition(
        _ gateway: Gateway, _ ranges: [Range<Int>], at node: Int, _ number: UInt32, restoration: UInt32?
    ) {
        let entries = entries(of: gateway, ranges)
        repetitions.append(
            Repetition(
                gateway: gateway.number, process: gateway.process, node: node, ranges: ranges, number: number,
                restoration: restoration,
                calls: ReassertionCalls(
                    entries, keys: Names.keys, slots: ranges, start: instant, journal: gateway.journal)))
        let index = repetitions.count - 1
        note("g\(gateway.number) writes \(entries.count) entries of its journal again at n\(node)")
        if repetitions[index].calls.needsTime {
            repetitions[index].pending = 1
            send(.time, slot: 0, to: node, from: gateway, owner: .repetition(index))
        } else {
            sendCalls(index)
        }
    }

    private func entries(of gateway: Gateway, _ ranges: [Range<Int>]) -> [WriteJournal.Entry] {
        if mutant == .noReassertion { return [] }
        let entries = gateway.journal.entries(in: ranges, now: instant)
        guard mutant == .reassertsOnlyAtPromoted else { return entries }
        return entries.filter { promotedAt[places[Int($0.slot)]] > lostAt[places[Int($0.slot)]] }
    }

    private func sendCalls(_ index: Int) {
        let repetition = repetitions[index]
        let gateway = gateways[repetition.gateway]
        let calls = repetitions[index].calls.next(.max)
        guard !calls.isEmpty else { return endRepetition(index) }
        repetitions[index].pending = calls.count
        for call in calls {
            send(
                .repeated(call), slot: places[Int(call.slot)], to: repetition.node, from: gateway,
                owner: .repetition(index))
        }
    }

    func repeated(_ index: Int, _ call: Int, _ reply: Reply) {
        repetitions[index].pending -= 1
        switch (calls[call].body, reply) {
        case (.time, .time(let time)):
            repetitions[index].calls.time = ReassertionCalls.ServerTime(microseconds: time, before: instant)
            return sendCalls(index)
        case (.time, _):
            repetitions[index].unwritten.formUnion(repetitions[index].calls.slotsThatNeedTime)
            return sendCalls(index)
        case (.repeated(let call), .number(let change)):
            // An own write is not reported by the server.
            if change > 0, let id = call.session { gateways[repetitions[index].gateway].cache.recordChanged(id) }
        case (.repeated(let call), _): repetitions[index].unwritten.insert(call.slot)
        default: break
        }
        if repetitions[index].pending == 0 { endRepetition(index) }
    }

    private func endRepetition(_ index: Int) {
        let repetition = repetitions[index]
        let gateway = gateways[repetition.gateway]
        gateway.journal.didRepeat(
            repetition.ranges, repetition.number, unwritten: repetition.unwritten, now: instant)
        if let number = repetition.restoration {
            queue.push(.restored(gateway: gateway.number, process: gateway.process, number: number), at: now)
        } else {
            gateway.links[repetition.node].isRepeating = false
        }
        guard !repetition.unwritten.isEmpty else { return }
        coverage.count(.notAccepted)
        repeatLater(gateway)
    }

    private func repeatLater(_ gateway: Gateway) {
        guard !gateway.repeatsLater, now < end + 1_000 else { return }
        gateway.repeatsLater = true
        queue.push(
            .repeatLater(gateway: gateway.number, process: gateway.process), at: now + random.between(100, 1_000))
    }

    /// Repeats what servers have not accepted.
    func repeatUnaccepted(_ gateway: Gateway, _ process: Int) {
        guard gateway.isUp, gateway.process == process else { return }
        gateway.repeatsLater = false
        let unrepeated = slots(in: gateway.journal.unrepeated)
        guard !unrepeated.isEmpty else { return }
        for node in gateway.links.indices {
            let ranges = unrepeated.filter { gateway.routes[$0] == .link(Settings.addresses[node]) }.map(range)
                .sorted { $0.lowerBound < $1.lowerBound }
            guard !ranges.isEmpty else { continue }
            if gateway.journal.hasRecords(in: ranges, now: instant), mutant != .graceForgotten {
                gateway.grace.begin(ranges, now: instant)
            }
            guard !gateway.links[node].isRepeating else { continue }
            gateway.links[node].isRepeating = true
            beginRepetition(gateway, ranges, at: node, gateway.journal.willRepeat(ranges), restoration: nil)
        }
        repeatLater(gateway)
    }
}

/// What a gateway writes to its journal, as ``ValkeyRecordStore`` does.
extension World {
    static let lifetime = Duration.seconds(86_400)

    /// A record with a version of a session. Its sealed contents are the number of that version.
    func record(_ session: Session, _ index: Int, born: Int64) -> SessionRecord {
        versions.append(session)
        var record = SessionRecord(
            key: session.key, account: Names.hash(account: truths[index].account), name: nil, provider: nil,
            createdAt: session.createdAt, expiresAt: session.expiresAt, lastUsedAt: session.lastUsedAt,
            version: session.version, contents: UInt64(versions.count - 1).bigEndianBytes, client: [])
        record.birth.account = born
        return record
    }

    /// Keeps a record that is about to be written, or was.
    @discardableResult
    func journal(
        _ session: Session, _ index: Int, born: Int64, fence: UInt64? = nil, at gateway: Gateway
    ) -> WriteJournal.PendingSave? {
        let record = record(session, index, born: born)
        return gateway.journal.saved(
            JournaledRecord(
                record, fence: fence, lifetime: Self.lifetime, fields: RecordEncoding.parts(record),
                indexes: fence == nil ? Names.keys.indexes(of: record) : [], indexLifetime: Self.lifetime),
            now: instant)
    }

    /// Whether a write that has succeeded is not lost: its slot has the same server.
    func isKept(_ call: Int) -> Bool {
        gateways[calls[call].gateway].journal.replacement(of: hashSlots[calls[call].slot]) == calls[call].replacement
    }

    /// Whether this process has ended a session whose server may not have that. Counts what it completes.
    func hasOwnEnd(_ session: Int, _ gateway: Gateway, since repetition: UInt32? = nil) -> Bool {
        guard mutant != .repliesNotCompleted, gateway.journal.end(of: Names.key(session).id, since: repetition) != nil
        else { return false }
        coverage.count(.completedByJournal)
        return true
    }

    /// Whether a cutoff that was read ends a session; `nil` if that is unknown.
    func hasEnded(_ session: Session, _ index: Int, born: Int64, _ call: Int, _ stored: String?) -> Bool? {
        let account = RecordIndex.account(Names.hash(account: truths[index].account))
        var own = gateways[calls[call].gateway].journal.cutoff(
            Names.keys.cutoff(account), since: calls[call].repetition)
        if mutant == .repliesNotCompleted { own = (nil, false) }
        guard !own.isRequested else { return nil }
        if own.set != nil { coverage.count(.completedByJournal) }
        let cutoff = own.set.map { $0.completing(stored) } ?? stored.flatMap(SessionCutoff.init(stored:))
        return mutant != .cutoffIgnored && cutoff?.ends(record(session, index, born: born), in: account) == true
    }

    /// Whether a missing record proves nothing: another gateway may be about to write it again.
    func mayHaveLost(_ session: Int, _ gateway: Gateway) -> Bool {
        let slot = hashSlots[session]
        return gateway.cache.trust.word(slot) % 2 == 0 || !gateway.grace.isOver(slot, now: instant)
    }
}
