import CloakroomCore
import CloakroomIdentity
import TestSupport
import Testing

@Suite("The user's data after a token refresh", .timeLimit(.minutes(1)))
struct RefreshedUserTests {
    private let test = RefresherFixture()

    @Test("Rule 25: a changed user is visible after a refresh")
    func changed() async throws {
        let (ticket, session) = try await test.session()
        test.client.respondWithUser(.success(Array(#"{"name":"Changed"}"#.utf8)))
        _ = await test.refresh(session, ticket)
        await test.settle()
        let kept = try require(test.kept(ticket))
        expect(kept.user.json, equals: Array(#"{"name":"Changed"}"#.utf8))
        expect(kept.user.account, equals: session.user.account)
        expect(kept.authorization, equals: Secret("Bearer canary-renewed-1"))
        expect(kept.version, equals: session.version + 1)
    }

    @Test("is not written again if unchanged or if the upstream has no user endpoint")
    func unchanged() async throws {
        let (ticket, session) = try await test.session()
        for response in [session.user.json, nil] {
            test.client.respondWithUser(.success(response))
            let before = try require(test.kept(ticket))
            test.time.advance(by: .seconds(400))
            _ = await test.refresh(before, ticket)
            await test.settle()
            expect(test.kept(ticket)?.version, equals: before.version + 1)
        }
    }

    @Test("stays unchanged if it cannot be fetched, without an error to the request")
    func failure() async throws {
        let (ticket, session) = try await test.session()
        test.client.respondWithUser(.failure(TokenClientError(.unreachable, in: .user)))
        await expect(test.refresh(session, ticket).session != nil)
        await test.settle()
        expect(test.kept(ticket)?.user, equals: session.user)
        expect(test.results, equals: [.success])
    }

    @Test(
        "Identity rule 17: data of another user end the session, of a password too: its new token may be of that user",
        arguments: [false, true])
    func otherUser(hasProvenance: Bool) async throws {
        let provenance = SessionProvenance(
            identity: "company", issuer: "https://id.example.com", subject: "jo", nonceHash: [], claims: [])
        let (ticket, session) = try await test.session(provenance: hasProvenance ? provenance : nil)
        test.client.respondWithUser(.failure(TokenClientError(.rejected, in: .user)))
        // No request gets the new token.
        await expect(test.refresh(session, ticket).endReason, equals: .refreshRejected)
        await test.settle()
        expect(test.kept(ticket) == nil)
        expect(test.results, equals: [.rejected])
    }

    @Test(
        "of another user has its tokens revoked, after the request has its response, be it in UserInfo or the ID token",
        arguments: [false, true])
    func foreignTokens(isInIDToken: Bool) async throws {
        let (ticket, session) = try await test.session()
        if isInIDToken {
            test.client.becomeOtherUser()
        } else {
            test.client.respondWithUser(.failure(TokenClientError(.rejected, in: .user)))
        }
        let hold = RotatingClient()
        hold.hold()
        test.client.onRevoke { _ = try? await hold.refresh(session, traceparent: nil, now: session.createdAt.wallTime) }
        await expect(test.refresh(session, ticket).endReason, equals: .refreshRejected)
        await until { hold.refreshed.count == 1 }
        expect(test.refresher.inFlightCount, equals: 1)
        hold.letGo()
        await test.settle()
        expect(test.client.revoked, equals: [Secret("canary-successor-1")])
    }

    @Test("of another user has its tokens revoked if the session stays, unless it still has that refresh token")
    func foreignTokensOfRemainingSession() async throws {
        for rotates in [true, false] {
            let test = RefresherFixture()
            if !rotates { test.client.keepRefreshTokens() }
            let (ticket, session) = try await test.session()
            test.client.respondWithUser(.failure(TokenClientError(.rejected, in: .user)))
            test.store.fail(.reject, .unavailable)
            await expect(test.refresh(session, ticket).storeRetryAfter, equals: 1)
            await test.settle()
            expect(test.kept(ticket)?.authorization, equals: session.authorization)
            expect(test.client.revoked, equals: rotates ? [Secret("canary-successor-1")] : [])
            // The session ends with the next attempt, and with it the token that both have.
            test.store.recover(.reject)
            test.time.advance(by: .seconds(400))
            await expect(test.refresh(session, ticket).endReason, equals: .refreshRejected)
            await test.settle()
            expect(
                test.client.revoked.last, equals: rotates ? Secret("canary-successor-2") : session.tokens.refreshToken
            )
        }
    }

    @Test("is not fetched if the lease could end before the tokens are saved")
    func lateRefresh() async throws {
        let (ticket, session) = try await test.session()
        test.client.hold()
        let waiting = Task { await test.refresh(session, ticket) }
        await until { test.client.refreshed.count == 1 && test.time.sleeperCount == 1 }
        test.time.advance(by: RefresherFixture.limits.call + .milliseconds(1))
        test.client.letGo()
        await expect(waiting.value.session?.authorization, equals: Secret("Bearer canary-renewed-1"))
        expect(test.client.userCalls, equals: 0)
    }

    @Test("Rule 39: is fetched with a check for the replaced tokens")
    func previousTokens() async throws {
        let (ticket, session) = try await test.session()
        _ = await test.refresh(session, ticket)
        await test.settle()
        expect(test.client.replaced, equals: [session.tokens.refreshToken])
    }

    @Test("Rule 39: is emptied if the stored data contains the new tokens and no other data is available")
    func keptData() async throws {
        for response in [.success(nil), .failure(TokenClientError(.invalidResponse, in: .user))]
            as [Result<[UInt8]?, TokenClientError>]
        {
            let test = RefresherFixture()
            let tokens = TokenSet(
                authorization: Secret("Bearer canary-before"), refreshToken: Secret("canary-refresh"),
                accessTokenExpiresAt: test.time.now, obtainedAt: test.time.now - .seconds(300))
            let user = UserProfile(
                json: Array(#"{"next":["canary\u002drenewed-1"]}"#.utf8), account: AccountName(email: "jo@example.com"))
            let (ticket, session) = try await test.store.create(
                NewSession(user: user, tokens: tokens), now: test.time.sessionTime)
            test.client.respondWithUser(response)
            _ = await test.refresh(session, ticket)
            await test.settle()
            expect(test.kept(ticket)?.user.json, equals: Array("{}".utf8))
        }
    }

    @Test("is saved while the lease is still held")
    func underTheLease() async throws {
        let (ticket, session) = try await test.session()
        let (store, time, key) = (test.store, test.time, session.key)
        let attempts = CallRecorder()
        test.client.onUser {
            let attempt = try? await store.lease(key, for: .seconds(1), now: time.sessionTime)
            attempts.note(attempt == .heldByOther ? "taken" : "free")
        }
        _ = await test.refresh(session, ticket)
        await test.settle()
        expect(attempts.all, equals: ["taken"])
    }
}
