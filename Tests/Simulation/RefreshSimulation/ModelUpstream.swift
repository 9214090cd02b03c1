/// A model of the upstream: one family of rotating tokens for each session.
struct ModelUpstream {
    /// An access token and a refresh token of one token response.
    struct Pair {
        let session: Int
        /// The pair whose refresh token was spent for this one; -1 for the first pair of a session.
        let parent: Int
        /// The call that issued this pair; -1 for the first pair of a session.
        let issuedBy: Int
        let accessEnd: Int64
        /// The call that spent the refresh token first; -1 for none.
        var spentBy = -1
        var spentAt: Int64 = 0
        /// The call that revoked this pair by issuing another one; -1 for none.
        var voidedBy = -1
    }

    struct Family {
        /// The latest pair; -1 for none yet.
        var current: Int
        var isRevoked = false
    }

    /// The result of presenting a refresh token.
    struct Verdict {
        /// The new pair; `nil` for a definite rejection.
        var pair: Int?
        /// The call that had spent the token before.
        var spentBefore: Int?
        /// The call that had revoked the unspent token.
        var voidedBefore: Int?
    }

    let rotation: Settings.Rotation
    /// Milliseconds.
    let accessLife: Int64
    private(set) var pairs: [Pair] = []
    private(set) var families: [Family] = []

    init(_ settings: Settings) {
        rotation = settings.rotation
        accessLife = settings.accessLife * 1_000
    }

    /// Signs in: issues the first pair of the next session.
    mutating func signIn(now: Int64) -> Int {
        let session = families.count
        families.append(Family(current: 0))
        return issue(session, parent: -1, call: -1, now: now)
    }

    /// Begins the family of a session whose code is not redeemed yet.
    mutating func reserve() { families.append(Family(current: -1)) }

    /// Redeems the code of a login, once: a second attempt revokes the tokens (RFC 6749 §4.1.2).
    mutating func redeem(_ session: Int, call: Int, now: Int64) -> Int? {
        guard families[session].current < 0, !families[session].isRevoked else {
            families[session].isRevoked = true
            return nil
        }
        return issue(session, parent: -1, call: call, now: now)
    }

    mutating func refresh(_ pair: Int, call: Int, now: Int64) -> Verdict {
        let session = pairs[pair].session
        guard !families[session].isRevoked else { return Verdict() }
        let current = families[session].current
        if pair == current {
            pairs[pair].spentBy = call
            pairs[pair].spentAt = now
            return Verdict(pair: issue(session, parent: pair, call: call, now: now))
        }
        if pairs[pair].voidedBy >= 0 {
            families[session].isRevoked = true
            return Verdict(voidedBefore: pairs[pair].voidedBy)
        }
        let spentBefore = pairs[pair].spentBy
        if case .leeway(let leeway) = rotation, pairs[current].parent == pair, now - pairs[pair].spentAt <= leeway {
            pairs[current].voidedBy = call
            return Verdict(pair: issue(session, parent: pair, call: call, now: now), spentBefore: spentBefore)
        }
        families[session].isRevoked = true
        return Verdict(spentBefore: spentBefore)
    }

    mutating func revoke(_ session: Int) {
        families[session].isRevoked = true
    }

    /// Whether an access token is valid.
    func accepts(_ pair: Int, now: Int64) -> Bool {
        now < pairs[pair].accessEnd && pairs[pair].voidedBy < 0 && !families[pairs[pair].session].isRevoked
    }

    /// Whether a pair equals another one or was issued from it, directly or indirectly.
    func descends(_ pair: Int, from ancestor: Int) -> Bool {
        var pair = pair
        while pair > ancestor { pair = pairs[pair].parent }
        return pair == ancestor
    }

    private mutating func issue(_ session: Int, parent: Int, call: Int, now: Int64) -> Int {
        pairs.append(Pair(session: session, parent: parent, issuedBy: call, accessEnd: now + accessLife))
        families[session].current = pairs.count - 1
        return pairs.count - 1
    }
}
