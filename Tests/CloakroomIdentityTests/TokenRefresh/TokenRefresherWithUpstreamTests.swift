import CloakroomIdentity
import FoundationEssentials
import MockAPI
import Testing

@testable import CloakroomCore

@Suite("Refreshing with the real mock API: rotation and reuse detection", .timeLimit(.minutes(1)))
struct TokenRefresherWithUpstreamTests {
    private static let emails = ["jo@example.com", "sam@example.com"]

    private struct Signed {
        let ticket: SessionTicket
        let session: Session
    }

    private struct Room {
        let mock: RunningMockAPI
        let client: UpstreamTokenClient
        let store: ScriptedStore
        let refresher: TokenRefresher

        func signIn(_ email: String = emails[0]) async throws -> Signed {
            let signedIn = try await client.signIn(
                try Upstreams.credentials(email), traceparent: nil, now: TokenRefresherWithUpstreamTests.now)
            let (ticket, session) = try await store.create(
                NewSession(user: signedIn.user, tokens: signedIn.tokens),
                now: TokenRefresherWithUpstreamTests.now.sessionTime)
            return Signed(ticket: ticket, session: session)
        }

        func refresh(_ signed: Signed, cause: RefreshTrigger = .rejected) async -> RefreshOutcome {
            await refresher.refresh(signed.session, ticket: signed.ticket, cause: cause, traceparent: nil)
        }

        func kept(_ ticket: SessionTicket) throws -> Session {
            try #require(store.active(ticket, now: TokenRefresherWithUpstreamTests.now.sessionTime))
        }

        func settle() async { await until { refresher.inFlightCount == 0 } }

        var seen: RecordedTraffic { mock.observations.snapshot() }
    }

    private static var now: WallTime {
        WallTime(milliseconds: Int64(Date().timeIntervalSince1970 * 1_000))
    }

    private func withRoom<R: Sendable>(body: (Room) async throws -> R) async throws -> R {
        let users = Self.emails.map { MockUser(email: $0, password: "canary-password", name: $0) }
        return try await Upstreams.withMock(users) { mock, client in
            let store = ScriptedStore(CallRecorder())
            let refresher = TokenRefresher(
                store: store, clients: TokenClients(signIn: (.unknown, client)), observer: RecordingObserver(),
                limits: RefreshTimeouts(TimeoutsConfiguration()), clock: { Self.now },
                sessionClock: { Self.now.sessionTime },
                leaseClock: { MonotonicTime(milliseconds: Self.now.milliseconds) })
            let result = try await body(Room(mock: mock, client: client, store: store, refresher: refresher))
            await refresher.shutdown()
            return result
        }
    }

    @Test("200 concurrent requests cause exactly one refresh, and no used refresh token is sent again")
    func singleFlight() async throws {
        try await withRoom { room in
            let signed = try await room.signIn()
            for round in 1...3 {
                let current = Signed(ticket: signed.ticket, session: try room.kept(signed.ticket))
                let live = await withTaskGroup(of: Bool.self) { group in
                    for _ in 0..<200 {
                        group.addTask {
                            guard let refreshed = await room.refresh(current, cause: .expired).session else {
                                return false
                            }
                            return refreshed.version > current.session.version
                        }
                    }
                    return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
                }
                await room.settle()
                #expect(live == 200)
                #expect(room.seen.refreshes == round && room.seen.reuseDetections == 0)
            }
        }
    }

    @Test("Rule 16: two users refreshing concurrently never swap tokens")
    func neverSwap() async throws {
        try await withRoom { room in
            var signed: [Signed] = []
            for email in Self.emails { signed.append(try await room.signIn(email)) }
            for _ in 0..<10 {
                let current = try signed.map { Signed(ticket: $0.ticket, session: try room.kept($0.ticket)) }
                let outcomes = await withTaskGroup(of: (Int, Session?).self) { group in
                    for index in 0..<20 {
                        group.addTask { (index % 2, await room.refresh(current[index % 2], cause: .expired).session) }
                    }
                    return await group.reduce(into: []) { $0.append($1) }
                }
                for (index, session) in outcomes {
                    let session = try #require(session)
                    #expect(session.key == current[index].session.key)
                    #expect(session.user.name == AccountName(email: Self.emails[index]))
                    #expect(session.user.account == current[index].session.user.account)
                }
                await room.settle()
                // The upstream confirms that each session's access token returns its own user's data.
                for (index, signed) in signed.enumerated() {
                    let user = try await room.client.user(try room.kept(signed.ticket).tokens, traceparent: nil)
                    #expect(String(decoding: user ?? [], as: UTF8.self).contains(#""email":"\#(Self.emails[index])""#))
                    #expect(try room.kept(signed.ticket).user.json == user)
                }
            }
            #expect(room.seen.refreshes == 20 && room.seen.reuseDetections == 0)
        }
    }

    @Test("Rule 25: a changed user is visible after a refresh")
    func changedUser() async throws {
        try await withRoom { room in
            let signed = try await room.signIn()
            room.mock.api.renameUser(email: Self.emails[0], to: "Another Name")
            #expect(await room.refresh(signed).session != nil)
            await room.settle()
            let json = String(decoding: try room.kept(signed.ticket).user.json, as: UTF8.self)
            #expect(json.contains("Another Name"))
        }
    }

    @Test("a shutdown loses no tokens of a refresh in flight")
    func shutdown() async throws {
        try await withRoom { room in
            let signed = try await room.signIn()
            room.mock.faults.setLatency(.milliseconds(200))
            room.refresher.refreshInBackground(signed.session, ticket: signed.ticket)
            await until { room.seen.count("POST", "/auth/refresh") == 1 }
            await room.refresher.shutdown()
            #expect(room.seen.refreshes == 1)
            #expect(try room.kept(signed.ticket).authorization != signed.session.authorization)
        }
    }
}
