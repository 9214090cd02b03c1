import CloakroomCore

/// Which records are chosen if an account has more than a number of sessions: the oldest ones.
///
/// A store that cannot count the active sessions of an account has an index with an id for each session, active or ended
/// by the idle timeout. It checks some of them, and the number of all is estimated.
struct SurplusRule: Sendable, Equatable {
    /// The maximum number of records that are chosen at once.
    static let maximum = 16
    /// The maximum number of times that a sign-in chooses: again if another one ended some of the chosen ones.
    static let maxRounds = 4

    /// The maximum difference of the times of sign-ins that may find each other: of a slow one the time is that of its
    /// request. Beyond it the clock of another gateway differs, and the new one stays.
    static let moment = Duration.seconds(30)

    /// The number of sessions that an account may have.
    var limit: Int
    /// The hashes of the account under all secrets, and of the name that was typed for it. Records of other accounts
    /// neither count nor are chosen: they are in the index because the same name was typed for them.
    var accounts: [UInt64]
    /// Sessions whose last recorded use is not later than this have expired.
    var usedAfter: SessionTime
    /// The session of the sign-in: it counts, and is chosen only if others of the same moment are later.
    var new: SessionID

    /// What the rule needs of a record.
    struct Candidate: Sendable, Equatable {
        var id: SessionID
        var account: UInt64
        var createdAt: SessionTime
        var expiresAt: SessionTime
        var lastUsedAt: SessionTime

        fileprivate var order: (SessionTime, UInt64) { (createdAt, id.value) }
    }

    /// Ids of an index, some of which were checked.
    struct Sample: Sendable {
        /// The number of ids in the index, at most 2^32: the estimate multiplies it.
        var total: Int
        /// The ids that were checked: first ``SurplusRule/maximum`` of those that end first, then others that are evenly
        /// spread over the index.
        var ids: [SessionID]
        /// The records that were found under them.
        var records: [Candidate]
    }

    /// Chooses the oldest records in excess of the limit.
    ///
    /// The number of active sessions is exact if all ids were checked. Otherwise it is estimated by the share of active
    /// ones among those that were checked. An estimate of a few is often wrong, so only an eighth of it is chosen, and at
    /// least one: an account that stays at its limit has one more with each sign-in.
    func surplus(in sample: Sample, now: SessionTime) -> RecordSurplus {
        let alive = sample.records.filter { $0.expiresAt > now && $0.lastUsedAt > usedAfter }
        guard alive.allSatisfy({ accounts.contains($0.account) }) else { return .unknown }
        let isExact = sample.ids.count >= sample.total
        let first = Set(isExact ? sample.ids[...] : sample.ids.prefix(Self.maximum))
        let oldest = alive.filter { first.contains($0.id) }
        let others = alive.filter { !first.contains($0.id) }
        var count = oldest.count - limit
        if !isExact, sample.ids.count > first.count {
            count += (sample.total - first.count) * others.count / (sample.ids.count - first.count)
            if count > 0 { count = (count + 7) / 8 }
        }
        var chosen = self.oldest(count, of: oldest)
        chosen += self.oldest(min(count, Self.maximum) - chosen.count, of: others)
        return chosen.isEmpty ? .none : .records(chosen)
    }

    /// The ids of the records that were created first; at most ``maximum``. The new one is among them only if others that were
    /// created at the same moment suffice: sign-ins that find each other choose the same records, so that no two end each other.
    func oldest(_ count: Int, of records: some Collection<Candidate>) -> [SessionID] {
        guard count > 0 else { return [] }
        let own = records.first { $0.id == new }
        let later = records.count { record in
            own.map { $0.order < record.order && record.createdAt - $0.createdAt <= Self.moment } ?? false
        }
        return records.filter { later >= max(1, limit) || $0.id != new }.sorted { $0.order < $1.order }
            .prefix(min(count, Self.maximum)).map(\.id)
    }
}

extension SurplusRule.Candidate {
    init(_ record: SessionRecord) {
        self.init(
            id: record.key.id, account: record.account, createdAt: record.createdAt, expiresAt: record.expiresAt,
            lastUsedAt: record.lastUsedAt)
    }
}

extension SurplusRule.Candidate {
    /// - Parameter session: One in memory, whose account is known.
    init(_ session: Session) {
        self.init(
            id: session.id, account: 0, createdAt: session.createdAt, expiresAt: session.expiresAt,
            lastUsedAt: session.lastUsedAt)
    }
}

/// The records of an account in excess of its limit.
enum RecordSurplus: Sendable, Equatable {
    case none
    /// The oldest, at most ``SurplusRule/maximum``, the oldest first.
    case records([SessionID])
    /// The index also has records of other accounts, so that the number of its ids decides nothing.
    case unknown
}
