import TestSupport
import Testing

@testable import CloakroomCore

/// Sealing without a cipher: a keyed hash over the name and the content.
private struct HashedSealing: CookieSealing {
    let hash: KeyedHash

    init(_ secret: UInt64 = 1) { hash = KeyedHash(key0: secret, key1: 2) }

    func seal(_ content: [UInt8], name: String) -> [UInt8]? { tag(content, name) + content }

    func open(_ sealed: [UInt8], name: String) -> [UInt8]? {
        let content = Array(sealed.dropFirst(8))
        return Array(sealed.prefix(8)) == tag(content, name) ? content : nil
    }

    private func tag(_ content: [UInt8], _ name: String) -> [UInt8] {
        hash.hash(Array(name.utf8) + [0] + content).bigEndianBytes
    }
}

private struct NoObserver: AccountObserver {
    func accountEvent(_ event: AccountEvent, from origin: AuditContext) {}
}

@Suite("Sessions that are bound to a device")
struct DeviceSessionsTests {
    private static let start = WallTime(seconds: 1_700_000_000)
    private static let key = (0..<64).map { UInt8($0) }
    private static let binding = DeviceBinding(key: key, boundAt: start)

    private static func session(
        _ binding: DeviceBinding? = binding, word: UInt64 = 1, createdAt: WallTime = start
    ) -> Session {
        Session(
            key: SessionKey(word, 2, 3, 4), user: UserProfile(json: [], account: AccountName(text: "jo")),
            tokens: TokenSet(authorization: Secret("Bearer a"), obtainedAt: start), device: binding,
            createdAt: createdAt.sessionTime, expiresAt: SessionTime(milliseconds: .max),
            lastUsedAt: createdAt.sessionTime)
    }

    private func devices(
        _ mode: DeviceConfiguration.Mode = .auto, secret: UInt64 = 1, settle: Duration = .seconds(10)
    ) throws -> DeviceSessions {
        var configuration = DeviceConfiguration()
        (configuration.mode, configuration.settle) = (mode, settle)
        return try require(DeviceSessions(configuration, sealing: HashedSealing(secret), observer: NoObserver()))
    }

    private func check(
        _ session: Session, _ proof: String = "", by devices: DeviceSessions, after seconds: Int64
    ) -> DeviceCheck? {
        var accepted = AcceptedProof()
        let bytes = Array(proof.utf8)
        return devices.check(session, bytes.span, accepted: &accepted, now: Self.start + .seconds(seconds))
    }

    @Test("Rule 114: a proof is valid until its end and 30 s for other clocks; without one the session settles first")
    func times() throws {
        let devices = try devices()
        let session = Self.session()
        let proof = try require(devices.proof(for: session.key, Self.binding, until: Self.start + .seconds(600)))
        for (seconds, expected) in [(0, DeviceCheck.proven), (600, .proven), (630, .proven), (631, .unproven)] {
            expect(check(session, proof, by: devices, after: Int64(seconds)), equals: expected, "\(seconds)")
        }
        let settling: [(Int64, DeviceCheck)] = [
            (-31, .unproven), (-30, .settling), (0, .settling), (40, .settling), (41, .unproven), (700, .unproven),
        ]
        for (seconds, expected) in settling {
            expect(check(session, by: devices, after: seconds), equals: expected, "\(seconds)")
            expect(check(session, "invalid", by: devices, after: seconds), equals: expected, "\(seconds)")
        }
        expect(check(session, by: try self.devices(settle: .zero), after: 31), equals: .unproven)
        // A session without a key needs nothing.
        expect(check(Self.session(nil), by: devices, after: 1_000), equals: nil)
        expect(!devices.concerns(Self.session(nil)) && devices.concerns(session))
    }

    @Test("Rule 118: boundCookieOfAnotherSessionIsNone: a proof is for one session, one key and these secrets")
    func moved() throws {
        let devices = try devices()
        let session = Self.session()
        let end = Self.start + .seconds(600)
        let proof = try require(devices.proof(for: session.key, Self.binding, until: end))
        let other = DeviceBinding(key: Self.key.reversed(), boundAt: Self.start)
        let challenge = try require(devices.challenge(for: session.key, now: end))
        let rows: [(Session, String)] = [
            (Self.session(word: 9), proof), (Self.session(other), proof), (session, challenge),
            (session, proof + "A"), (session, String(proof.dropLast())), (session, proof + "="),
            (session, String(repeating: "A", count: 65)), (session, String(repeating: "A", count: 4_000)),
        ]
        for (index, row) in rows.enumerated() {
            expect(check(row.0, row.1, by: devices, after: 100), equals: .unproven, "row \(index)")
        }
        for index in proof.indices {
            var changed = proof
            changed.replaceSubrange(index...index, with: proof[index] == "A" ? "B" : "A")
            expect(check(session, changed, by: devices, after: 100), equals: .unproven)
        }
        expect(check(session, proof, by: try self.devices(secret: 7), after: 100), equals: .unproven)
        expect(check(session, proof, by: try self.devices(), after: 100), equals: .proven)
    }

    @Test("Rule 114: a proof that was accepted is not accepted for another session, or after its end")
    func accepted() throws {
        let devices = try devices()
        let (session, other) = (
            Self.session(), Self.session(DeviceBinding(key: Self.key, boundAt: Self.start), word: 9)
        )
        let proof = Array(
            try require(devices.proof(for: session.key, Self.binding, until: Self.start + .seconds(600))).utf8)
        var accepted = AcceptedProof()
        func check(_ session: Session, _ bytes: [UInt8], _ seconds: Int64) -> DeviceCheck? {
            devices.check(session, bytes.span, accepted: &accepted, now: Self.start + .seconds(seconds))
        }
        for _ in 0..<3 { expect(check(session, proof, 100), equals: .proven) }
        expect(check(other, proof, 100), equals: .unproven)
        expect(check(session, Array(proof.dropLast()), 100), equals: .unproven)
        expect(check(session, [], 100), equals: .unproven)
        expect(check(session, proof, 630), equals: .proven)
        expect(check(session, proof, 631), equals: .unproven)
        // The same key after a refresh of the tokens: the object of the session is another one.
        expect(check(session.refreshed(with: SessionUpdate()), proof, 200), equals: .proven)
    }

    @Test("Rule 114: with `required` a session without a key ends after the offer, and with `auto` it does not")
    func required() throws {
        let devices = try devices(.required)
        let session = Self.session(nil)
        expect(devices.concerns(session))
        expect(check(session, by: devices, after: 120), equals: nil)
        expect(check(session, by: devices, after: 121), equals: .unproven)
        try expect(!self.devices().isOverdue(session, now: Self.start + .seconds(9_000)))
        expect(!devices.isOverdue(Self.session(), now: Self.start + .seconds(9_000)))
        var off = DeviceConfiguration()
        off.mode = .off
        expect(DeviceSessions(off, sealing: HashedSealing(), observer: NoObserver()) == nil)
    }

    @Test("Rule 138: the terms of an app decide in place of the mode, whatever that is")
    func terms() throws {
        func session(_ mode: DeviceConfiguration.Mode, _ binding: DeviceBinding? = nil) -> Session {
            Session(
                key: SessionKey(1, 2, 3, 4), user: UserProfile(json: [], account: AccountName(text: "jo")),
                tokens: TokenSet(authorization: Secret("Bearer a"), obtainedAt: Self.start), device: binding,
                terms: SessionTerms(idle: .seconds(60), absolute: .seconds(600), device: mode),
                createdAt: Self.start.sessionTime, expiresAt: SessionTime(milliseconds: .max),
                lastUsedAt: Self.start.sessionTime)
        }
        var off = DeviceConfiguration()
        off.isUsedByApps = true
        let devices = try require(DeviceSessions(off, sealing: HashedSealing(), observer: NoObserver()))
        expect(devices.concerns(session(.required)) && !devices.concerns(Self.session(nil)))
        expect(check(session(.required), by: devices, after: 120), equals: nil)
        expect(check(session(.required), by: devices, after: 121), equals: .unproven)
        expect(check(session(.auto), by: devices, after: 9_000), equals: nil)
        expect(check(session(.auto, Self.binding), by: devices, after: 9_000), equals: .unproven)
        // One that was bound while the mode was another one needs a proof still: a route may require the key.
        expect(check(Self.session(), by: devices, after: 9_000), equals: .unproven)
        // A clock that was set back gives a session no further time without a key.
        expect(check(session(.required), by: devices, after: -30), equals: nil)
        expect(check(session(.required), by: devices, after: -31), equals: .unproven)
        expect(check(session(.off), by: try self.devices(.required), after: 9_000), equals: nil)
    }

    @Test("Rule 117: a challenge is for one session, and not from the future")
    func challenges() throws {
        let devices = try devices()
        let (session, now) = (SessionKey(1, 2, 3, 4), Self.start)
        let challenge = try require(devices.challenge(for: session, now: now))
        func time(_ session: SessionKey, _ text: String, after seconds: Int64 = 0) -> WallTime? {
            devices.time(of: text, for: session, now: now + .seconds(seconds))
        }
        expect(time(session, challenge), equals: now)
        expect(time(session, challenge, after: 90_000), equals: now)
        expect(time(session, challenge, after: -30), equals: now)
        expect(time(session, challenge, after: -31), equals: nil)
        expect(time(SessionKey(1, 2, 3, 5), challenge), equals: nil)
        let proof = try require(devices.proof(for: session, Self.binding, until: now))
        let offer = try require(devices.offer(for: Self.ticket(), now: now))
        for text in ["", "A", challenge + "A", proof, offer, String(repeating: "é", count: 100)] {
            expect(time(session, text), equals: nil)
        }
        expect(
            devices.challengeField(for: session, now: now),
            equals: AccountResponse.Field("Secure-Session-Challenge", "\"\(challenge)\";id=\"0000000000000001\""))
    }

    private static func ticket() -> SessionTicket {
        var generator = SystemRandomNumberGenerator()
        return SessionTicket(using: &generator)
    }

    @Test("Rule 115: the challenge of a registration is for one ticket at one site, and nothing else opens as one")
    func offers() throws {
        let devices = try devices()
        let (ticket, now) = (Self.ticket(), Self.start)
        let offer = try require(devices.offer(for: ticket, now: now))
        func opened(
            _ text: String, after seconds: Int64 = 0, at site: SiteTag = .main, by devices: DeviceSessions? = nil
        ) throws -> SessionTicket? {
            let devices = try devices ?? self.devices()
            let found = devices.opened(offer: text, at: site, now: now + .seconds(seconds))
            expect(found == nil || found?.issuedAt == now)
            return found?.ticket
        }
        for seconds in [-30, 0, 90_000] as [Int64] { try expect(opened(offer, after: seconds), equals: ticket) }
        try expect(opened(offer, after: -31), equals: nil)
        let readable = try require(devices.offer(for: ticket, isReadable: true, now: now))
        for (text, isReadable) in [(offer, false), (readable, true)] {
            let found = devices.opened(offer: text, at: .main, now: now)
            expect(found?.ticket == ticket && found?.isReadable == isReadable)
        }
        let elsewhere = try opened(offer, at: SiteTag("shop"))
        expect(elsewhere != nil && elsewhere != ticket)
        try expect(opened(offer, by: self.devices(secret: 7)), equals: nil)
        let session = SessionKey(1, 2, 3, 4)
        let proof = try require(devices.proof(for: session, Self.binding, until: now))
        let challenge = try require(devices.challenge(for: session, now: now))
        let texts = [
            "", "A", offer + "A", offer + "=", String(offer.dropLast()), proof, challenge, ticket.cookieValue,
            String(repeating: "A", count: 128), String(repeating: "A", count: 4_000),
            String(repeating: "é", count: 100),
        ]
        for text in texts { try expect(opened(text), equals: nil) }
    }

    @Test("Rule 117: five proofs a minute of a session and address may fail, and no others are delayed")
    func failures() throws {
        let devices = try devices()
        let (id, now) = (SessionID(1), Self.start.sessionTime)
        func count(_ id: SessionID = id, _ address: String = "192.0.2.1", _ seconds: Int64 = 0) -> Bool {
            devices.countProof(of: id, from: address, now: now + .seconds(seconds))
        }
        for _ in 0..<100 {
            expect(count())
            devices.proofSucceeded(of: id, from: "192.0.2.1")
        }
        for _ in 0..<5 { expect(count()) }
        for _ in 0..<100 { expect(!count()) }
        expect(count(SessionID(2)) && count(id, "192.0.2.2"))
        expect(count(id, "192.0.2.1", 12) && !count(id, "192.0.2.1", 12))
        for _ in 0..<5 { expect(count(id, "192.0.2.1", 80)) }
        // A clock that is set back by an hour delays no session that was checked before.
        expect(count(SessionID(3), "192.0.2.1", 80))
        devices.proofSucceeded(of: SessionID(3), from: "192.0.2.1")
        expect(count(SessionID(3), "192.0.2.1", -3_520))
        // The table is bounded: other keys may replace some.
        for word in 0..<50_000 { _ = count(SessionID(UInt64(word) << 8), "192.0.2.1", 80) }
    }
}
