import Benchmark
import CloakroomCore
import CloakroomSessions
import CloakroomWire
import NIOCore

/// From the cookie to the decision: read the ticket, look the session up, decide.
func sessionBenchmarks() {
    Benchmark("Read the session cookie") { benchmark in
        let cookie = SessionCookie(.defaults)
        let ticket = Array(repeating: "A", count: SessionTicket.characterCount).joined()
        var buffer = ByteBuffer(string: Samples.browserRequest(cookie: "__Host-cloakroom=\(ticket)"))
        var parser = HeadParser(limits: HeadLimits())
        var head = RequestHead()
        guard try parser.parse(&buffer, into: &head) else { return benchmark.error("the head is incomplete") }
        for _ in benchmark.scaledIterations {
            blackHole(cookie.read(head))
        }
    }
    for count in [1, 100_000] {
        Benchmark("Look a session up, 1 of \(count)") { (benchmark: Benchmark, filled: FilledStore) in
            var index = 0
            for _ in benchmark.scaledIterations {
                blackHole(filled.store.lookup(filled.tickets[index], now: Samples.now, slides: true))
                index = index + 1 == filled.tickets.count ? 0 : index + 1
            }
        } setup: {
            try await FilledStore(sessions: count)
        }
    }
    Benchmark("Look a session up, key known") { (benchmark: Benchmark, filled: FilledStore) in
        var key: SessionKey?
        for _ in benchmark.scaledIterations {
            blackHole(filled.store.lookup(filled.tickets[0], key: &key, now: Samples.now, slides: true))
        }
    } setup: {
        try await FilledStore(sessions: 1)
    }
    Benchmark("Decide about a request") { (benchmark: Benchmark, filled: FilledStore) in
        let access = try route("video", "/videos/{id}").access
        let lookup = filled.store.lookup(filled.tickets[0], now: Samples.now, slides: true)
        for _ in benchmark.scaledIterations {
            let decision = AuthDecision.decide(access, at: 0, now: Samples.now.wallTime, session: lookup)
            guard case .forward = decision else { return benchmark.error("the request is not forwarded") }
            blackHole(decision)
        }
    } setup: {
        try await FilledStore(sessions: 1)
    }
}

/// A store with sessions, and up to a thousand tickets of them.
private struct FilledStore {
    let store: MemorySessionStore
    private(set) var tickets: [SessionTicket] = []

    init(sessions count: Int) async throws {
        store = MemorySessionStore(
            GatewayConfiguration.defaults.session, accountHashes: AccountHasher(KeyedHash(key0: 1, key1: 2)),
            clock: { Samples.now })
        for number in 0..<count {
            let account = AccountName(email: "user-\(number)@example.com")
            let user = UserProfile(json: Array(#"{"id":"1"}"#.utf8), account: account)
            let tokens = TokenSet(
                authorization: Secret("Bearer " + String(repeating: "a", count: 48)),
                refreshToken: Secret(String(repeating: "r", count: 48)), obtainedAt: Samples.now.wallTime)
            let (ticket, _) = try await store.create(NewSession(user: user, tokens: tokens), now: Samples.now)
            if tickets.count < 1_000 { tickets.append(ticket) }
        }
    }
}
