import Synchronization
import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomIdentity

/// The session is saved with the key under the lease of its refresh.
@Suite("The registration of a device's key")
struct DeviceRegistrationTests {
    private typealias Fixture = AccountControllerFixture
    private static let now = Fixture.now.wallTime
    private let store = ScriptedStore(CallRecorder())

    private static func after(_ seconds: Int64) -> WallTime { now + .seconds(seconds) }

    /// Endpoints that wait for no time.
    private func subject(_ sleep: @escaping @Sendable (Duration) async throws -> Void = { _ in }) -> Fixture {
        var device = DeviceConfiguration()
        device.mode = .auto
        return Fixture(device: device, store: store, sleep: sleep)
    }

    /// A client that is signed in, and has signed the challenge of the response.
    private func signedIn() async throws -> (client: DeviceClient, proof: [UInt8]) {
        var client = try DeviceClient()
        client.take(await subject().signIn(), at: Self.now)
        return (client, try client.signed(try require(client.challenge)))
    }

    private func register(
        _ client: DeviceClient, _ proof: [UInt8], at seconds: Int64, to subject: Fixture? = nil
    ) async -> Int {
        let request = client.refresh(proof, at: Self.after(seconds))
        return await (subject ?? self.subject()).endpoints.respond(request).status
    }

    private func session(_ client: DeviceClient) throws -> Session {
        let ticket = try require(client.ticket)
        return try require(store.active(ticket, now: Fixture.now))
    }

    /// Takes the lease as a refresh of the tokens does.
    private func lease(_ key: SessionKey, for seconds: Int64) async throws -> RefreshLease {
        let result = try await store.lease(key, for: .seconds(seconds), now: Self.after(1).sessionTime)
        guard case .acquired(let lease) = result else { throw SessionStoreError(.unavailable) }
        return lease
    }

    @Test("Rule 115: a store that fails is 503, and the session is not bound")
    func storeFailures() async throws {
        let (client, proof) = try await signedIn()
        store.fail(.save, .unavailable)
        await expect(register(client, proof, at: 1), equals: 503)
        try expect(session(client).device, equals: nil)
        store.recover(.save)
        store.fail(.load, .unavailable)
        await expect(register(client, proof, at: 2), equals: 503)
        store.recover(.load)
        await expect(register(client, proof, at: 3), equals: 200)
        try expect(session(client).device != nil)
    }

    @Test("Rule 117: a refresh without the store is 503, which ends nothing, and the same one succeeds afterwards")
    func refreshWithoutStore() async throws {
        let (signedIn, proof) = try await signedIn()
        var client = signedIn
        client.take(await subject().endpoints.respond(client.refresh(proof, at: Self.after(1))), at: Self.after(1))
        let token = try client.signed(try require(client.challenge))
        store.becomeRemote()
        store.fail(.load, .unavailable)
        let response = await subject().endpoints.respond(client.refresh(token, at: Self.after(2)))
        expect(response.status == 503 && response.values(of: "Set-Cookie").isEmpty)
        store.recover(.load)
        await expect(register(client, token, at: 3), equals: 204)
    }

    @Test(
        "Rule 144: a script of a page registers no key; the browser itself and an app do",
        arguments: [("cors", 403), ("same-origin", 403), ("navigate", 403), ("no-cors", 200), (nil, 200)]
            as [(String?, Int)])
    func script(mode: String?, status: Int) async throws {
        let (client, proof) = try await signedIn()
        let subject = subject()
        var request = client.refresh(proof, at: Self.after(1))
        request.fetchMetadata = FetchMetadata(isGET: false, mode: mode, destination: mode.map { _ in "empty" })
        await expect(subject.endpoints.respond(request).status, equals: status)
        let session = try session(client)
        expect(session.device == nil, equals: status == 403)
        let reason = status == 403 ? DeviceRejection.script : nil
        expect(
            subject.observer.all.last,
            equals: .deviceProof(reason == nil ? .bound : .rejected, session.id, reason: reason))
    }

    @Test(
        "Rule 144: a challenge that a script could read and send elsewhere registers no key without the cookie",
        arguments: [("cors", 401), ("same-origin", 401), (nil, 401), ("navigate", 200)] as [(String?, Int)])
    func readChallenge(mode: String?, status: Int) async throws {
        var client = try DeviceClient()
        let metadata = FetchMetadata(
            isGET: false, mode: mode, destination: mode.map { $0 == "navigate" ? "document" : "empty" })
        client.take(await subject().signIn(metadata: metadata), at: Self.now)
        let proof = try client.signed(try require(client.challenge))
        var elsewhere = client
        elsewhere.ticket = nil
        await expect(register(elsewhere, proof, at: 1), equals: status)
        let session = try session(client)
        expect(session.device == nil, equals: status == 401)
        await expect(register(client, proof, at: 2), equals: 200)
    }

    @Test("Rule 143: a registration waits for a refresh of the tokens, and both the tokens and the key are saved")
    func duringRefresh() async throws {
        let (client, proof) = try await signedIn()
        let (store, before, ticket) = (self.store, try session(client), try require(client.ticket))
        let lease = try await lease(before.key, for: 15)
        let waited = Mutex(Duration.zero)
        let subject = subject { delay in
            let time = waited.withLock { time in
                time += delay
                return time
            }
            guard time >= .seconds(9), time - delay < .seconds(9) else { return }
            let tokens = TokenSet(authorization: Secret("Bearer new"), obtainedAt: Self.after(10))
            _ = try await store.save(
                SessionUpdate(tokens: tokens), ticket: ticket, over: before, under: lease,
                now: Self.after(10).sessionTime)
            await store.release(lease, of: before.key)
        }
        await expect(register(client, proof, at: 1, to: subject), equals: 200)
        let time = waited.withLock { $0 }
        #expect(time <= .seconds(10))
        let after = try session(client)
        expect(after.device != nil && after.authorization == Secret("Bearer new") && after.version == 3)
    }

    @Test("Rule 143: it waits no longer than another refresh would, and can be repeated afterwards")
    func longRefresh() async throws {
        let (client, proof) = try await signedIn()
        let key = try session(client).key
        let lease = try await lease(key, for: 60)
        let waited = Mutex(Duration.zero)
        let subject = subject { delay in waited.withLock { $0 += delay } }
        await expect(register(client, proof, at: 2, to: subject), equals: 503)
        // The time of a call, 10 s, and 6 s.
        let time = waited.withLock { $0 }
        expect(time >= .seconds(16) && time <= .seconds(17))
        try expect(session(client).device, equals: nil)
        await store.release(lease, of: key)
        await expect(register(client, proof, at: 20), equals: 200)
    }
}
