import CloakroomCore
import TestSupport

/// Sessions and pairs as types of the gateway, with names and secrets that contain their index.
enum Names {
    /// The initial time of all clocks.
    static let epoch: Int64 = 1_700_000_000_000

    static func key(_ session: Int) -> SessionKey {
        // Four words that differ between sessions; the last one spreads the refreshes.
        var random = SeededGenerator(seed: UInt64(session) &+ 77)
        return SessionKey(random.next(), random.next(), random.next(), random.next())
    }

    static func tokens(_ pair: Int, end: WallTime, obtainedAt: WallTime) -> TokenSet {
        let low = UInt8(truncatingIfNeeded: pair)
        let high = UInt8(truncatingIfNeeded: pair >> 8)
        return TokenSet(
            authorization: Secret(bytes: [0x61, high, low]), refreshToken: Secret(bytes: [0x72, high, low]),
            accessTokenExpiresAt: end, obtainedAt: obtainedAt)
    }

    static func pair(_ secret: Secret?) -> Int {
        guard let bytes = secret?.bytes, bytes.count == 3 else { return -1 }
        return Int(bytes[1]) << 8 | Int(bytes[2])
    }

    /// What a provider states about the user of a login.
    static func provenance(_ login: SimulatedLogin) -> SessionProvenance {
        SessionProvenance(
            identity: "company", issuer: "https://id.example.com", subject: "\(login.session)",
            providerSession: "\(login.sid)", nonceHash: [], claims: [])
    }

    static func providerSession(_ sid: Int) -> ProviderSession {
        ProviderSession(issuer: "https://id.example.com", id: "\(sid)")
    }

    static func pair(_ session: Session) -> Int { pair(session.authorization) }
}

/// Descriptions of steps in a trace: names and numbers only.
func describe(_ action: TokenRefreshStateMachine.Action) -> String {
    switch action {
    case .lease: "request the lease"
    case .read: "read"
    case .wait(let pause): "wait \(pause.wholeMilliseconds) ms"
    case .refresh(let session): "spend p\(Names.pair(session)) (v\(session.version))"
    case .save(let update, let over, let lease):
        "save p\(Names.pair(update.tokens?.refreshToken)) over v\(over.version), fence \(lease.fencingToken)"
    case .reject(let session, let lease): "reject v\(session.version), fence \(lease.fencingToken)"
    case .finish(let result, let lease):
        "finish, \(describe(result))" + (lease.map { ", release fence \($0.fencingToken)" } ?? "")
    }
}

private func describe(_ result: TokenRefreshStateMachine.Result) -> String {
    switch result {
    case .refreshed(let session): "refreshed: p\(Names.pair(session)) v\(session.version)"
    case .coalesced(let session): "coalesced: p\(Names.pair(session)) v\(session.version)"
    case .rejected: "rejected"
    case .ended(let reason, let unused):
        "ended (\(reason))" + (unused.map { ", unused p\(Names.pair($0.refreshToken))" } ?? "")
    case .unavailable(let kind): "unavailable (\(kind))"
    case .storeUnavailable: "store unavailable"
    case .leaseTimeout: "lease timeout"
    }
}

func describe(_ body: Call.Body) -> String {
    switch body {
    case .lease(let session, _): "lease s\(session)"
    case .read(let session): "read s\(session)"
    case .save(let session, _, let version, let fence, let pair):
        "save s\(session) \(pair.map { "p\($0)" } ?? "user") over v\(version), fence \(fence)"
    case .reject(let session, let version, let fence): "reject s\(session) v\(version), fence \(fence)"
    case .release(let session, let fence): "release s\(session), fence \(fence)"
    case .reseal(let session, let read): "reseal s\(session) p\(Names.pair(read)) over v\(read.version)"
    case .touch(let session, _): "touch s\(session)"
    case .end(let session): "end s\(session)"
    case .refresh(let pair): "refresh p\(pair)"
    case .resource(let session, let pair): "resource for s\(session) with p\(pair)"
    case .revoke(let session): "revoke s\(session)"
    case .setMark(let mark): "mark \(mark)"
    case .hasMark(let mark): "check mark \(mark)"
    case .redeem(let session): "redeem the code of s\(session)"
    case .create(let session, let tokens): "create s\(session) with p\(Names.pair(tokens.refreshToken))"
    case .endProviderSession(let sid): "end sessions of sid \(sid)"
    }
}

func describe(_ response: TestResponse) -> String {
    switch response {
    case .lease(let attempt): "\(attempt)"
    case .read(.active(let session)), .save(.saved(let session)): "p\(Names.pair(session)) v\(session.version)"
    case .read(let lookup): "\(lookup)"
    case .save(let attempt): "\(attempt)"
    case .reject(let attempt): "\(attempt)"
    case .done: "done"
    case .mark(let isMarked): "\(isMarked)"
    case .unavailable: "unavailable"
    case .tokens(let pair): "p\(pair)"
    case .rejected: "refused"
    case .failed: "failed"
    }
}
